"""Values that people give, by name, and values that must be refused with words."""

from typing import Any

PRICES = "accelerator,price_per_gpu_hour\nNVIDIA-A100-SXM4-80GB,1.25\n"

#: Namespaces that every cluster has, so that an API server accepts roles in them.
NAMED_NAMESPACES = ["default", "kube-public"]

VALUE_SETS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "everything for Prometheus by force": {
        "dcgm": True,
        "serviceMonitor": {
            "enabled": True,
            "interval": "15s",
            "labels": {"release": "kube-prometheus-stack"},
        },
        "prometheusRule": {"enabled": True, "labels": {"release": "kube-prometheus-stack"}},
    },
    "nothing for Prometheus and Grafana": {
        "serviceMonitor": {"enabled": False},
        "prometheusRule": {"enabled": False},
        "dashboards": {"enabled": False},
    },
    "own registry": {
        "image": {"registry": "registry.example.com/gpu/", "pullSecrets": [{"name": "pull"}]},
        "exporter": {"image": {"tag": "0.1.0-rc.1", "pullPolicy": "Always"}},
    },
    "exporters of others": {
        "exporter": {"enabled": False},
        "agent": {"settings": {"targets": ["http://10.0.0.7:9836", "node-2:9836"]}},
    },
    "a Prometheus that is there": {
        "dcgm": True,
        "exporter": {"enabled": False},
        "agent": {
            "settings": {
                "prometheus_url": "http://prometheus.monitoring.svc:9090",
                "prometheus_headers": {"X-Scope-OrgID": "team"},
            }
        },
    },
    "some namespaces": {"namespaces": NAMED_NAMESPACES},
    "some namespaces and no nodes": {"namespaces": ["default"], "rbac": {"nodes": False}},
    "accounts and rights made by somebody else": {
        "rbac": {"create": False},
        "serviceAccount": {"create": False, "agentName": "robot", "exporterName": "probe"},
    },
    "no volume": {"agent": {"persistence": {"enabled": False}}},
    "a volume that is there": {"agent": {"persistence": {"existingClaim": "history"}}},
    "PostgreSQL by a secret": {
        "agent": {
            "persistence": {"enabled": False},
            "secretSettings": {"store": {"name": "database", "key": "url"}},
            "extraEnv": [{"name": "GPUTAILOR_LOG_COLOUR", "value": "never"}],
            "extraEnvFrom": [{"secretRef": {"name": "mail"}}],
        }
    },
    "mail and a webhook": {
        "agent": {
            "settings": {
                "mail_to": ["gpu-owners@example.org"],
                "mail_from": "GPU Tailor <gputailor@example.org>",
                "smtp_host": "mail.example.org",
                "smtp_username": "gputailor",
                "notify": {"team-a": "a@example.org"},
                "public_url": "https://gputailor.example.org",
            },
            "secretSettings": {
                "smtp_password": {"name": "gputailor-mail", "key": "password"},
                "webhook_url": {"name": "gputailor-mail", "key": "webhook", "optional": True},
            },
        },
    },
    "settings and prices": {
        "clusterName": "blue: #1",
        "prices": PRICES,
        "agent": {
            "port": 8443,
            "settings": {
                "scrape_seconds": 15,
                "report_cron": "30 6 * * 5",
                "thresholds": {"idle": {"warn_minutes": 120}},
            },
        },
    },
    "own placement": {
        "fullnameOverride": "gpus",
        "exporter": {
            "port": 19836,
            "intervalSeconds": 0.5,
            "lingerSeconds": 240,
            "kubeletRoot": "/data/kubelet/",
            "runtimeClassName": "nvidia",
            "priorityClassName": "system-node-critical",
            "hostPID": False,
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "affinityLabels": [],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "extraArgs": ["--no-histogram", "--sharing=mps"],
            "extraEnv": [{"name": "GPUTAILOR_EXPORTER_LOG_LEVEL", "value": "debug"}],
            "podLabels": {"team": "platform"},
            "podAnnotations": {"note": "true"},
        },
        "agent": {
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "podLabels": {"team": "platform"},
            "podAnnotations": {"note": "true"},
            "persistence": {"storageClass": "fast", "size": "20Gi"},
        },
        "serviceAccount": {"annotations": {"example.com/role": "reader"}},
    },
    "a driver on the host": {
        "exporter": {
            "privileged": True,
            "extraEnv": [{"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}],
            "extraVolumes": [
                {"name": "driver", "hostPath": {"path": "/home/kubernetes/bin/nvidia"}}
            ],
            "extraVolumeMounts": [{"name": "driver", "mountPath": "/usr/local/nvidia"}],
        },
        "agent": {
            "extraVolumes": [{"name": "ca", "configMap": {"name": "ca", "optional": True}}],
            "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}],
        },
    },
}

#: Values that are wrong, and words that the refusal must hold: where, and what is wrong there.
WRONG_VALUES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "a name that is not there": ({"exporter": {"intervall": 2}}, ("exporter", "intervall")),
    "no port": ({"exporter": {"port": 99999}}, ("exporter/port", "65,535")),
    "text for a number": ({"agent": {"port": "http"}}, ("agent/port", "integer")),
    "a tag with a blank": ({"agent": {"image": {"tag": "v 1"}}}, ("agent/image/tag", "v 1")),
    "a pull policy": (
        {"agent": {"image": {"pullPolicy": "Sometimes"}}},
        ("agent/image/pullPolicy", "IfNotPresent"),
    ),
    "readings too seldom": (
        {"exporter": {"intervalSeconds": 60}},
        ("exporter/intervalSeconds", "10"),
    ),
    "neither yes nor no": (
        {"serviceMonitor": {"enabled": "yes"}},
        ("serviceMonitor/enabled", "auto"),
    ),
    "a size in words": (
        {"agent": {"persistence": {"size": "ten"}}},
        ("agent/persistence/size", "ten"),
    ),
    "a namespace with a blank": ({"namespaces": ["Team A"]}, ("namespaces/0", "Team A")),
    "prices without a price": (
        {"prices": "accelerator,gpus\nA100,8\n"},
        ("prices", "price_per_gpu_hour"),
    ),
    "a setting that the agent does not have": (
        {"agent": {"settings": {"scrape_second": 30}}},
        ("agent/settings", "scrape_second"),
    ),
    "a setting that the chart makes": (
        {"agent": {"settings": {"cluster": "blue"}}},
        ("agent/settings", "cluster"),
    ),
    "a password in the open": (
        {"agent": {"settings": {"smtp_password": "hush"}}},
        ("agent/settings", "smtp_password"),
    ),
    "a secret without its key": (
        {"agent": {"secretSettings": {"store": {"name": "database"}}}},
        ("agent/secretSettings/store", "key"),
    ),
    "a setting out of its limits": (
        {"agent": {"settings": {"window_days": 1000}}},
        ("agent/settings/window_days", "400"),
    ),
    "a rule that is not there": (
        {"agent": {"settings": {"thresholds": {"idel": {"warn_minutes": 5}}}}},
        ("agent/settings/thresholds", "idel"),
    ),
    "a threshold below zero": (
        {"agent": {"settings": {"thresholds": {"idle": {"warn_minutes": -5}}}}},
        ("agent/settings/thresholds/idle/warn_minutes", "0"),
    ),
}
