"""Values that must be refused, with the words of the refusal."""

from typing import Any

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
    "a file of a ConfigMap without its key": (
        {"agent": {"configFiles": {"smtp_ca_file": {"name": "authorities"}}}},
        ("agent/configFiles/smtp_ca_file", "key"),
    ),
    "a file for a setting that is none": (
        {"agent": {"configFiles": {"smtp_host": {"name": "a", "key": "b"}}}},
        ("agent/configFiles", "smtp_host"),
    ),
    "a database at no port": (
        {"agent": {"postgresql": {"port": 0}}},
        ("agent/postgresql/port", "1"),
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
    "two agents": ({"agent": {"replicas": 2}}, ("agent/replicas", "1")),
    "a preset that is not there": ({"preset": "gcp"}, ("preset", "gke")),
    "a driver by magic": ({"exporter": {"driver": {"by": "magic"}}}, ("exporter/driver/by", "cdi")),
    "a driver's folder without a root": (
        {"exporter": {"driver": {"hostFolder": "nvidia"}}},
        ("exporter/driver/hostFolder", "nvidia"),
    ),
    "CDI devices without a kind": (
        {"exporter": {"driver": {"cdiDevices": "all"}}},
        ("exporter/driver/cdiDevices", "all"),
    ),
    "a capability too many": (
        {"exporter": {"capabilities": ["NET_ADMIN"]}},
        ("exporter/capabilities/0", "SYS_ADMIN"),
    ),
    "privileged in words": (
        {"exporter": {"privileged": "yes"}},
        ("exporter/privileged", "auto"),
    ),
    "a digest that is short": (
        {"agent": {"image": {"digest": "sha256:abc"}}},
        ("agent/image/digest", "sha256:abc"),
    ),
    "a registry with a password": (
        {"global": {"imageRegistry": "user:word@mirror"}},
        ("global/imageRegistry", "user:word@mirror"),
    ),
    "a pull secret without a name": (
        {"image": {"pullSecrets": [{}]}},
        ("image/pullSecrets/0", "name"),
    ),
    "a namespace of exporters in capitals": (
        {"exporter": {"namespace": "GPU"}},
        ("exporter/namespace", "GPU"),
    ),
    "a web Secret that is a name of a file": (
        {"exporter": {"web": {"existingSecret": "/etc/web.yml"}}},
        ("exporter/web/existingSecret", "/etc/web.yml"),
    ),
    "a host with a scheme": (
        {"agent": {"ingress": {"host": "https://gpu.example.org"}}},
        ("agent/ingress/host", "https://gpu.example.org"),
    ),
    "a gateway without a name": (
        {"agent": {"httpRoute": {"parentRefs": [{"namespace": "gateways"}]}}},
        ("agent/httpRoute/parentRefs/0", "name"),
    ),
    "a label that is a number": (
        {"monitoring": {"labels": {"release": 7}}},
        ("monitoring/labels/release", "string"),
    ),
    "a priority of the system": (
        {"priorityClass": {"value": 2000000000}},
        ("priorityClass/value", "maximum"),
    ),
    "peers that are names": (
        {"networkPolicy": {"scrapers": ["monitoring"]}},
        ("networkPolicy/scrapers/0", "object"),
    ),
    "a secret file for what is no file": (
        {"agent": {"secretFiles": {"store": {"name": "database", "key": "url"}}}},
        ("agent/secretFiles", "store"),
    ),
    "a file setting as a variable": (
        {"agent": {"secretSettings": {"smtp_password_file": {"name": "mail", "key": "p"}}}},
        ("agent/secretSettings", "smtp_password_file"),
    ),
    "an interval without a unit": (
        {"serviceMonitor": {"interval": "30"}},
        ("serviceMonitor/interval", "30"),
    ),
    "a volume for many readers": (
        {"agent": {"persistence": {"accessModes": ["ReadOnlyMany"]}}},
        ("agent/persistence/accessModes/0", "ReadWriteOnce"),
    ),
    "an object that is a number": ({"extraObjects": [7]}, ("extraObjects/0", "object")),
    "a threshold that is a word": (
        {"agent": {"settings": {"thresholds": {"idle": {"warn_minutes": "two"}}}}},
        ("agent/settings/thresholds/idle/warn_minutes", "number"),
    ),
}

#: Values of the right kind that do not go together, and what the refusal says to do.
CONTRADICTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "a policy for a Prometheus that is still to be found": (
        {
            "networkPolicy": {"enabled": True},
            "agent": {"settings": {"prometheus_url": "auto"}},
        },
        "open the way to it by networkPolicy.agentEgress",
    ),
    "a tag that moves": (
        {"agent": {"image": {"tag": "latest"}}},
        "latest moves under a running cluster; give a version",
    ),
    "nothing to read": (
        {"exporter": {"enabled": False}},
        "nothing to read: set exporter.enabled=true, or",
    ),
    "a driver on the host, nobody knows where": (
        {"exporter": {"driver": {"by": "host"}}},
        "set exporter.driver.hostFolder",
    ),
    "a driver in two places": (
        {"exporter": {"driver": {"by": "host", "hostFolder": "/a", "hostLibrary": "/b"}}},
        "a driver comes by one of them",
    ),
    "TLS without its files": (
        {"exporter": {"web": {"tls": True}}},
        "name the Secret that holds it (exporter.web.existingSecret)",
    ),
    "two stores": (
        {"agent": {"postgresql": {"existingSecret": "a"}, "settings": {"store": "sqlite:///b"}}},
        "leave agent.settings.store, agent.secretSettings.store and agent.secretFiles.store_file out",
    ),
    "exporters with a password that the agent is not told": (
        {"exporter": {"web": {"existingSecret": "web"}}},
        "the login (agent.settings.targets_username with agent.secretFiles.targets_password_file)",
    ),
    "a file from two objects": (
        {
            "agent": {
                "secretFiles": {"prometheus_ca_file": {"name": "a", "key": "ca.crt"}},
                "configFiles": {"prometheus_ca_file": {"name": "b", "key": "ca.crt"}},
            }
        },
        "agent.secretFiles.prometheus_ca_file: it is given by another value as well",
    ),
    "a file said twice": (
        {
            "agent": {
                "settings": {"prometheus_ca_file": "/ca"},
                "secretFiles": {"prometheus_ca_file": {"name": "ca", "key": "ca.crt"}},
            }
        },
        "agent.secretFiles.prometheus_ca_file: it is given by another value as well",
    ),
    "an Ingress without a host": (
        {"agent": {"ingress": {"enabled": True}}},
        "name the host as well (agent.ingress.host)",
    ),
    "a route without a gateway": (
        {"agent": {"httpRoute": {"enabled": True}}},
        "name the gateway as well (agent.httpRoute.parentRefs)",
    ),
    "monitors of two operators": (
        {"serviceMonitor": {"enabled": True}, "victoriaMetrics": {"enabled": True}},
        "would scrape and warn twice; set one of them to false",
    ),
    "values of an older chart": (
        {"preset": None, "exporter": {"web": None, "driver": None}, "victoriaMetrics": None},
        "give --reset-then-reuse-values instead",
    ),
}
