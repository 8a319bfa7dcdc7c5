"""Values that people give, by name."""

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
            "extraEnv": [{"name": "GPUTAILOR_LOG_FORMAT", "value": "json"}],
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

#: An object as a text with templates in it.
TEXT = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: text-{{ .Release.Name }}
  namespace: {{ .Release.Namespace }}
  labels: {app.kubernetes.io/instance: {{ .Release.Name }}}
"""

PRESETS = ("gpu-operator", "gke", "eks", "aks", "openshift", "k3s", "bare")

VALUE_SETS |= {f"preset {name}": {"preset": name} for name in PRESETS}

#: Everything the chart can make at once.
ALL_ON: dict[str, Any] = {
    "preset": "openshift",
    "dcgm": True,
    "smi": True,
    "clusterName": "all",
    "image": {"registry": "registry.example.com/gpu", "pullSecrets": [{"name": "pull"}]},
    "exporter": {"web": {"existingSecret": "web", "tls": True}, "capabilities": ["SYS_ADMIN"]},
    "agent": {
        "settings": {
            "prometheus_url": "https://prometheus.monitoring.svc:9091",
            "smtp_host": "mail.example.org",
            "mail_to": ["gpu-owners@example.org"],
            "mail_from": "gputailor@example.org",
        },
        "ingress": {"enabled": True, "host": "gputailor.example.org", "tlsSecret": "tls"},
        "httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}]},
        "secretFiles": {
            "web_token_file": {"name": "web-tokens", "key": "tokens"},
            "web_access_file": {"name": "web-tokens", "key": "access.yaml"},
        },
    },
    "prices": PRICES,
    "priorityClass": {"create": True},
    "networkPolicy": {"enabled": True},
    "monitoring": {"labels": {"release": "stack"}, "scrapeAnnotations": True},
    "serviceMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "dashboards": {"operator": {"enabled": True, "folder": "GPU"}},
    "extraObjects": [
        TEXT,
    ],
}
VALUE_SETS["everything on"] = ALL_ON

VALUE_SETS |= {
    "exporters alone": {"agent": {"enabled": False}},
    "two namespaces": {
        "exporter": {"namespace": "kube-system"},
        "networkPolicy": {"enabled": True},
    },
    "a driver's library of another system": {
        "preset": "bare",
        "exporter": {"driver": {"hostLibrary": "/usr/lib64/libnvidia-ml.so.1"}},
    },
    "a driver by CDI": {
        "exporter": {"driver": {"by": "cdi", "cdiDevices": "nvidia.com/gpu=0"}, "cdiSpecs": True}
    },
    "a preset that is overruled": {
        "preset": "gke",
        "exporter": {"driver": {"by": "runtime"}, "privileged": False, "runtimeClassName": "nv"},
    },
    "devices by a mount": {"exporter": {"driver": {"devicesByMount": True}}},
    "privileged by the runtime": {"preset": "gpu-operator", "exporter": {"privileged": True}},
    "counters of administrators": {
        "exporter": {"capabilities": ["SYS_ADMIN", "SYS_PTRACE"], "requireDevices": True}
    },
    "SELinux of one's own": {
        "preset": "openshift",
        "exporter": {"seLinuxOptions": {"type": "gputailor_t", "level": "s0"}},
    },
    "exporters with TLS": {
        "exporter": {"web": {"existingSecret": "web", "tls": True}},
        "agent": {"settings": {"prometheus_url": "auto"}},
        "serviceMonitor": {"enabled": True},
        "monitoring": {
            "exporterEndpoint": {"tlsConfig": {"ca": {"secret": {"name": "ca", "key": "ca.crt"}}}}
        },
    },
    "exporters with client certificates": {
        "exporter": {"web": {"existingSecret": "web", "tls": True, "clientCertificates": True}},
        "agent": {"settings": {"prometheus_url": "http://prometheus:9090"}},
    },
    "exporters with TLS that the agent reads": {
        "exporter": {"web": {"existingSecret": "web", "tls": True, "clientCertificates": True}},
        "agent": {
            "settings": {"targets_username": "agent"},
            "secretFiles": {
                "targets_password_file": {"name": "exporters", "key": "password"},
                "targets_certificate_file": {"name": "exporters", "key": "tls.crt"},
                "targets_key_file": {"name": "exporters", "key": "tls.key"},
            },
            "configFiles": {"targets_ca_file": {"name": "authorities", "key": "ca.crt"}},
        },
        "serviceMonitor": {"enabled": True},
        "monitoring": {"exporterEndpoint": {"tlsConfig": {"insecureSkipVerify": True}}},
    },
    "PostgreSQL by its address in a file": {
        "agent": {"secretFiles": {"store_file": {"name": "database", "key": "url"}}},
        "networkPolicy": {"enabled": True},
    },
    "exporters with a password": {
        "exporter": {"web": {"existingSecret": "web"}},
        "agent": {"secretSettings": {"targets": {"name": "targets", "key": "targets"}}},
    },
    "a class of priority": {"priorityClass": {"create": True, "value": 500}},
    "secrets as files": {
        "agent": {
            "settings": {
                "smtp_host": "mail.example.org",
                "smtp_username": "gputailor",
                "mail_to": ["a@example.org"],
                "mail_from": "gputailor@example.org",
                "prometheus_url": "https://prometheus.example.org",
            },
            "secretFiles": {
                "smtp_password_file": {"name": "mail", "key": "password"},
                "webhook_url_file": {"name": "mail", "key": "webhook"},
                "prometheus_bearer_token_file": {"name": "prometheus", "key": "token"},
                "prometheus_ca_file": {"name": "prometheus", "key": "ca.crt"},
            },
        }
    },
    "files that are no secret": {
        "agent": {
            "settings": {
                "smtp_host": "mail.example.org",
                "mail_to": ["a@example.org"],
                "mail_from": "gputailor@example.org",
                "prometheus_url": "https://prometheus.example.org",
            },
            "secretFiles": {"prometheus_bearer_token_file": {"name": "prometheus", "key": "token"}},
            "configFiles": {
                "smtp_ca_file": {"name": "authorities", "key": "mail.crt"},
                "prometheus_ca_file": {"name": "authorities", "key": "prometheus.crt"},
            },
        }
    },
    "PostgreSQL by a file": {"agent": {"postgresql": {"existingSecret": "database"}}},
    "PostgreSQL behind a policy": {
        "agent": {"postgresql": {"existingSecret": "database", "port": 6432}},
        "networkPolicy": {"enabled": True},
    },
    "an Ingress with a login": {
        "agent": {
            "ingress": {
                "enabled": True,
                "className": "nginx",
                "host": "gputailor.example.org",
                "tlsSecret": "tls",
                "annotations": {"nginx.ingress.kubernetes.io/auth-url": "https://login/auth"},
            }
        }
    },
    "an Ingress without TLS": {"agent": {"ingress": {"enabled": True, "host": "gpu.example.org"}}},
    "a route of a gateway": {
        "agent": {
            "httpRoute": {
                "enabled": True,
                "parentRefs": [{"name": "public", "namespace": "gateways"}],
                "hostnames": ["gputailor.example.org"],
                "annotations": {"note": "x"},
                "filters": [
                    {
                        "type": "RequestHeaderModifier",
                        "requestHeaderModifier": {"remove": ["x-user"]},
                    }
                ],
            }
        }
    },
    "closed to the network": {
        "networkPolicy": {
            "enabled": True,
            "scrapers": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
            "visitors": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
            "agentEgress": [{"ports": [{"port": 5432, "protocol": "TCP"}]}],
        },
        "agent": {"settings": {"targets": ["http://10.0.0.7:9836", "https://node-2/metrics"]}},
    },
    "an identity of a cloud": {
        "serviceAccount": {
            "agentAnnotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/gpu"}
        },
        "agent": {"podLabels": {"azure.workload.identity/use": "true"}, "priorityClassName": "low"},
    },
    "scraped by pod": {"podMonitor": {"enabled": True, "labels": {"a": "b"}}},
    "VictoriaMetrics": {
        "victoriaMetrics": {"enabled": True, "labels": {"a": "b"}},
    },
    "Grafana's operator": {
        "dashboards": {
            "operator": {
                "enabled": True,
                "instanceSelector": {"matchLabels": {"team": "gpu"}},
                "folder": "GPU",
            },
            "annotations": {"grafana_folder": "GPU"},
        }
    },
    "annotations to scrape in any case": {"monitoring": {"scrapeAnnotations": True}},
    "no annotations": {"monitoring": {"scrapeAnnotations": False}},
    "a mirror for all": {
        "global": {
            "imageRegistry": "mirror.local:5000/gpu",
            "imagePullSecrets": ["one", {"name": "two"}],
            "somebodyElses": 1,
        },
        "image": {"registry": "registry.example.com", "pullSecrets": [{"name": "one"}]},
    },
    "images by digest": {
        "exporter": {"image": {"digest": f"sha256:{'a' * 64}"}},
        "agent": {"image": {"digest": f"sha256:{'b' * 64}", "tag": "0.1.0"}},
    },
    "objects of one's own": {
        "extraObjects": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": "mine",
                    "namespace": "{{ .Release.Namespace }}",
                    "labels": {"app.kubernetes.io/instance": "{{ .Release.Name }}"},
                },
            },
            TEXT,
        ]
    },
}
