"""What a change is called, for people: rules name kinds of change for programs."""

from gputailor_agent.model.judgement import Change
from gputailor_agent.reports.catalogues import _


def change_text(change: Change) -> str:
    """What is to be done, and to what; a kind that is new here is written as it is."""
    words = {
        "align_drivers": _("bring the drivers together"),
        "change_environment": _("change the image or the driver"),
        "cull_notebook": _("stop the notebook when nobody works"),
        "edit_arguments": _("change the arguments"),
        "edit_code": _("change the program"),
        "mount_shared_memory": _("mount more shared memory"),
        "reduce_precision": _("compute with fewer bits"),
        "release": _("release"),
        "repack_pool": _("move pods together"),
        "repair_node": _("have the node repaired"),
        "reserve": _("reserve capacity"),
        "scale_to_zero": _("scale to zero while nobody asks"),
        "serve_waiting": _("let waiting pods in"),
        "set_cpu_limit": _("set the CPU limit"),
        "set_gpu_type": _("ask for another GPU"),
        "set_gpus": _("set the number of GPUs"),
        "set_replicas": _("set the number of replicas"),
        "set_requests": _("set CPU and memory requests"),
        "set_time_limit": _("set the time limit"),
        "share_gpu": _("share the GPU"),
        "shrink_pool": _("make the pool smaller"),
        "tune_serving": _("change the server's settings"),
        "use_spot": _("use spot capacity"),
    }
    told = words.get(change.kind, change.kind.replace("_", " "))
    return _("{change}: {target}", change=told, target=change.target) if change.target else told
