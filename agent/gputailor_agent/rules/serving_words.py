"""What is said of model servers."""

from typing import Final

from gputailor_agent.rules.gates import GATE_MESSAGES

MESSAGES: Final = {
    **GATE_MESSAGES,
    "serving.tiny": "with {requests:count} request(s) per hour its GPU works for {busy:ratio} of "
    "the time: a CPU, or a small device at the edge, may answer them",
    "serving.batch": "a queue of {waiting:count} request(s) on average, while {sm:ratio} of the "
    "card's SMs work: put more of them into one batch",
    "serving.cache": "a queue of {waiting:count} request(s) on average for a full KV cache, while "
    "{sm:ratio} of the card's SMs work: make room in it",
    "serving.decode": "while it answers, the card's memory is busy for {dram:ratio} and its SMs "
    "for {sm:ratio}: weights of 8 bits ({format}) halve what is read",
    "serving.precision": "{sm:ratio} of the card's SMs work and its tensor cores do nothing: serve "
    "it in {format}, compiled by TensorRT",
    "serving.fewer": "nothing waits, and {sm:ratio} of the SMs of {replicas:count} replicas work "
    "for {busy:ratio} of the time: try {fewer:count}, with larger batches",
    "serving.unseen": "{sm:ratio} of the card's SMs work while it answers; whether requests wait "
    "is not told: if they do, put them into batches",
    "serving.not_service": "it does not answer requests",
    "serving.nothing_ran": "it answered nothing: see idle and standby",
    "serving.no_signal": "unknown: {signals}: not read here, or for less than "
    "{threshold:ratio} of the time; dcgm-exporter has tensor and DRAM by default and SM activity "
    "once it is switched on, the GPU Tailor exporter has all on Hopper and later cards",
    "serving.fine": "it fills {sm:ratio} of the card's SMs while it runs, and nothing speaks for "
    "another format",
    "serving.no_queue": "{sm:ratio} of the card's SMs work, and no request waits: batches would "
    "not grow; see smaller_gpu and share",
    "serving.asked": "memory is the wall, and its weights are small already ({precision})",
    "serving.unquantified": "what it brings is known only after a trial under load",
    "serving.risk_latency": "a request may wait until its batch is full: set the delay below what "
    "callers accept",
    "serving.risk_accuracy": "answers change a little in fewer bits: compare them on your own data",
    "serving.risk_cpu": "how long a CPU takes for a request was not measured",
    "serving.risk_peak": "load is known as means of hours: shorter peaks would be slower",
    "serving.risk_unseen": "no engine told of its requests; its metrics are not scraped",
    "serving.risk_memory": "larger batches need memory for their requests",
    "serving.also": "as well: {what}",
    "serving.not_faster_card": "a faster card: the present one is mostly empty",
    "serving.not_compile": "compiling alone: what is read and how often stays the same",
    "serving.not_release": "releasing it: it answers requests",
}
#: What each way of speaking is called where it stands beside another one.
NAMES: Final = {
    "batch": "larger batches",
    "cache": "more room in the KV cache",
    "decode": "8-bit weights",
    "precision": "tensor cores, with fewer bits",
    "fewer": "one replica fewer, with larger batches",
    "unseen": "batches, where requests wait",
}
