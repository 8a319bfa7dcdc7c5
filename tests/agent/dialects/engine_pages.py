"""A page of each inference engine as its documentation shows it; its counters grow with time.

The truth is the same in each: so many requests, tokens and so on as ``TRUTH`` says, as far as the
engine tells.
"""

#: Of one hour: two models (or ranks) of 360 requests each that took 2 s; tokens; levels.
TRUTH = {
    "requests": 720.0,
    "prompt_tokens": 72_000.0,
    "output_tokens": 7_200.0,
    "latency_seconds": 2.0,
    "running": 3.0,
    "waiting": 1.0,
    "cache": 0.25,
}
_RATE = 0.1  # requests per second and model


def page(engine: str, seconds: float) -> str:
    """The engine's page so many seconds after it began to work."""
    done = _RATE * seconds
    values = {
        "n": f"{done:.6f}", "s": f"{2 * done:.6f}", "ms": f"{2e3 * done:.6f}",
        "us": f"{2e6 * done:.6f}", "p": f"{100 * done:.6f}", "g": f"{10 * done:.6f}",
        "half": f"{done / 2:.6f}",
    }  # fmt: skip
    return PAGES[engine].format_map(values)


PAGES = {
    "vllm": """\
vllm:request_success_total{{engine="0",finished_reason="stop",model_name="m"}} {n}
vllm:request_success_total{{engine="0",finished_reason="length",model_name="m"}} {n}
vllm:request_success_total{{engine="0",finished_reason="abort",model_name="m"}} 0
vllm:prompt_tokens_total{{engine="0",model_name="m"}} {p}
vllm:prompt_tokens_total{{engine="1",model_name="m"}} {p}
vllm:generation_tokens_total{{engine="0",model_name="m"}} {g}
vllm:generation_tokens_total{{engine="1",model_name="m"}} {g}
vllm:e2e_request_latency_seconds_sum{{engine="0",model_name="m"}} {s}
vllm:e2e_request_latency_seconds_count{{engine="0",model_name="m"}} {n}
vllm:e2e_request_latency_seconds_bucket{{engine="0",le="+Inf",model_name="m"}} {n}
vllm:num_requests_running{{engine="0",model_name="m"}} 1
vllm:num_requests_running{{engine="1",model_name="m"}} 2
vllm:num_requests_waiting{{engine="0",model_name="m"}} 1
vllm:num_requests_waiting{{engine="1",model_name="m"}} 0
vllm:kv_cache_usage_perc{{engine="0",model_name="m"}} 0.25
vllm:kv_cache_usage_perc{{engine="1",model_name="m"}} 0.25
vllm:gpu_cache_usage_perc{{engine="0",model_name="m"}} 0.25
""",
    "sglang": """\
sglang:num_requests_total{{model_name="m",dp_rank="0"}} {n}
sglang:num_requests_total{{model_name="m",dp_rank="1"}} {n}
sglang:prompt_tokens_total{{model_name="m",dp_rank="0"}} {p}
sglang:prompt_tokens_total{{model_name="m",dp_rank="1"}} {p}
sglang:generation_tokens_total{{model_name="m",dp_rank="0"}} {g}
sglang:generation_tokens_total{{model_name="m",dp_rank="1"}} {g}
sglang:e2e_request_latency_seconds_sum{{model_name="m"}} {s}
sglang:e2e_request_latency_seconds_count{{model_name="m"}} {n}
sglang:num_running_reqs{{model_name="m",tp_rank="0",dp_rank="0"}} 3
sglang:num_running_reqs{{model_name="m",tp_rank="1",dp_rank="0"}} 3
sglang:num_queue_reqs{{model_name="m",tp_rank="0",dp_rank="0"}} 1
sglang:num_queue_reqs{{model_name="m",tp_rank="1",dp_rank="0"}} 1
sglang:token_usage{{model_name="m",tp_rank="0",dp_rank="0"}} 0.25
""",
    "triton": """\
nv_inference_request_success{{model="a",version="1"}} {n}
nv_inference_request_success{{model="b",version="1"}} {n}
nv_inference_request_failure{{model="a",version="1"}} 0
nv_inference_request_duration_us{{model="a",version="1"}} {us}
nv_inference_request_duration_us{{model="b",version="1"}} {us}
nv_inference_pending_request_count{{model="a",version="1"}} 1
nv_inference_pending_request_count{{model="b",version="1"}} 0
nv_gpu_memory_used_bytes{{gpu_uuid="GPU-a"}} 1e9
nv_gpu_memory_used_bytes{{gpu_uuid="GPU-b"}} 2e9
""",
    "tgi": """\
tgi_request_success{{method="generate"}} {n}
tgi_request_success{{method="chat"}} {n}
tgi_request_input_length_sum 0
tgi_request_input_length_sum{{method="generate"}} {p}
tgi_request_input_length_sum{{method="chat"}} {p}
tgi_request_generated_tokens_sum{{method="generate"}} {g}
tgi_request_generated_tokens_sum{{method="chat"}} {g}
tgi_request_duration_sum{{method="generate"}} {s}
tgi_request_duration_count{{method="generate"}} {n}
tgi_batch_current_size 3
tgi_queue_size 1
""",
    "torchserve": """\
ts_inference_requests_total{{model_name="a",model_version="default",hostname="h"}} {n}
ts_inference_requests_total{{model_name="b",model_version="default",hostname="h"}} {n}
ts_inference_latency_microseconds{{model_name="a",model_version="default",hostname="h"}} {us}
ts_inference_latency_microseconds{{model_name="b",model_version="default",hostname="h"}} {us}
QueueTime{{Level="Host",Hostname="h"}} 5
""",
    "tensorflow_serving": """\
:tensorflow:serving:request_count{{model_name="m",status="OK"}} {n}
:tensorflow:serving:request_count{{model_name="m",status="INVALID_ARGUMENT"}} {n}
:tensorflow:serving:request_latency_sum{{model_name="m",API="predict",entrypoint="REST"}} {us}
:tensorflow:serving:request_latency_count{{model_name="m",API="predict",entrypoint="REST"}} {n}
""",
    "ray": """\
ray_serve_deployment_request_counter_total{{deployment="d",replica="1",route="/"}} {n}
ray_serve_deployment_request_counter_total{{deployment="d",replica="2",route="/"}} {n}
ray_serve_deployment_request_counter{{deployment="d",replica="1",route="/"}} {n}
ray_serve_deployment_processing_latency_ms_sum{{deployment="d",replica="1",route="/"}} {ms}
ray_serve_deployment_processing_latency_ms_count{{deployment="d",replica="1",route="/"}} {n}
ray_serve_replica_processing_queries{{deployment="d",replica="1"}} 1
ray_serve_replica_processing_queries{{deployment="d",replica="2"}} 2
""",
    "mindie": """\
request_success_total{{model_name="a"}} {n}
request_success_total{{model_name="b"}} {n}
prompt_tokens_total{{model_name="a"}} {p}
prompt_tokens_total{{model_name="b"}} {p}
generation_tokens_total{{model_name="a"}} {g}
generation_tokens_total{{model_name="b"}} {g}
e2e_request_latency_seconds_sum{{model_name="a"}} {s}
e2e_request_latency_seconds_count{{model_name="a"}} {n}
num_requests_running{{model_name="a"}} 3
num_requests_waiting{{model_name="a"}} 1
npu_cache_usage_perc{{model_name="a"}} 0.25
""",
}

#: What each does not tell.
UNTOLD = {
    "vllm": set(),
    "sglang": set(),
    "triton": {"prompt_tokens", "output_tokens", "running", "cache"},
    "tgi": {"cache"},
    "torchserve": {"prompt_tokens", "output_tokens", "running", "waiting", "cache"},
    "tensorflow_serving": {"prompt_tokens", "output_tokens", "running", "waiting", "cache"},
    "ray": {"prompt_tokens", "output_tokens", "waiting", "cache"},
    "mindie": set(),
}
