"""The essentials of Grafana's dashboard schema (its kinds of 2023 and later), as JSON Schema.

Written from the documented model of a dashboard; stricter than Grafana, which fills in what is
missing: what this project writes has to say it.
"""

DATASOURCE = {
    "type": "object",
    "required": ["type", "uid"],
    "properties": {"type": {"const": "prometheus"}, "uid": {"const": "${datasource}"}},
    "additionalProperties": False,
}
TARGET = {
    "type": "object",
    "required": ["expr", "refId", "datasource", "instant", "range", "format", "legendFormat"],
    "properties": {
        "expr": {"type": "string", "minLength": 5},
        "refId": {"type": "string", "pattern": "^[A-Z]$"},
        "datasource": DATASOURCE,
        "instant": {"type": "boolean"},
        "range": {"type": "boolean"},
        "format": {"enum": ["time_series", "table"]},
        "legendFormat": {"type": "string"},
        "editorMode": {"const": "code"},
    },
    "additionalProperties": False,
}
GRID = {
    "type": "object",
    "required": ["h", "w", "x", "y"],
    "properties": {
        "h": {"type": "integer", "minimum": 1, "maximum": 20},
        "w": {"type": "integer", "minimum": 3, "maximum": 24},
        "x": {"type": "integer", "minimum": 0, "maximum": 21},
        "y": {"type": "integer", "minimum": 0},
    },
    "additionalProperties": False,
}
FIELD_CONFIG = {
    "type": "object",
    "required": ["defaults", "overrides"],
    "properties": {
        "defaults": {
            "type": "object",
            "required": ["custom", "thresholds"],
            "properties": {
                "unit": {"type": "string"},
                "thresholds": {
                    "type": "object",
                    "required": ["mode", "steps"],
                    "properties": {"mode": {"enum": ["absolute", "percentage"]}},
                },
                "color": {"type": "object", "required": ["mode"]},
            },
        },
        "overrides": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["matcher", "properties"],
                "properties": {"matcher": {"required": ["id", "options"]}},
            },
        },
    },
}
PANEL = {
    "type": "object",
    "required": [
        *("id", "type", "title", "description", "gridPos", "datasource", "targets"),
        *("fieldConfig", "options"),
    ],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "type": {"enum": ["stat", "table", "timeseries"]},
        "title": {"type": "string", "minLength": 2},
        "description": {"type": "string", "minLength": 10},
        "gridPos": GRID,
        "datasource": DATASOURCE,
        "targets": {"type": "array", "minItems": 1, "items": TARGET},
        "fieldConfig": FIELD_CONFIG,
        "options": {"type": "object"},
        "links": {"type": "array"},
        "transparent": {"type": "boolean"},
        "transformations": {
            "type": "array",
            "items": {"type": "object", "required": ["id", "options"]},
        },
    },
    "additionalProperties": False,
}
ROW = {
    "type": "object",
    "required": ["id", "type", "title", "collapsed", "gridPos", "panels"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "type": {"const": "row"},
        "title": {"type": "string"},
        "collapsed": {"type": "boolean"},
        "gridPos": GRID,
        "panels": {"type": "array", "items": PANEL},
    },
}
QUERY_VARIABLE = {
    "type": "object",
    "required": ["name", "type", "datasource", "query", "definition", "refresh", "regex"],
    "properties": {
        "type": {"const": "query"},
        "datasource": DATASOURCE,
        "query": {"type": "object", "required": ["query", "refId"]},
        "definition": {"type": "string"},
        "refresh": {"enum": [1, 2]},
        "regex": {"type": "string"},
        "multi": {"type": "boolean"},
        "includeAll": {"type": "boolean"},
        "current": {"type": "object"},
    },
}
DATASOURCE_VARIABLE = {
    "type": "object",
    "required": ["name", "type", "query"],
    "properties": {"type": {"const": "datasource"}, "query": {"const": "prometheus"}},
}
DASHBOARD = {
    "type": "object",
    "required": [
        *("title", "uid", "tags", "schemaVersion", "panels", "templating", "time", "timezone"),
        *("links", "editable", "graphTooltip", "refresh", "annotations"),
    ],
    "properties": {
        "id": {"type": "null"},
        "uid": {"type": "string", "pattern": "^[a-z0-9-]{1,40}$"},
        "title": {"type": "string", "minLength": 5},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "schemaVersion": {"type": "integer", "minimum": 39},
        "graphTooltip": {"enum": [0, 1, 2]},
        "timezone": {"const": "utc"},
        "panels": {"type": "array", "minItems": 1, "items": {"anyOf": [PANEL, ROW]}},
        "templating": {
            "type": "object",
            "required": ["list"],
            "properties": {"list": {"items": {"anyOf": [QUERY_VARIABLE, DATASOURCE_VARIABLE]}}},
        },
        "time": {"type": "object", "required": ["from", "to"]},
    },
    "not": {"anyOf": [{"required": ["rows"]}, {"required": ["sharedCrosshair"]}]},
}
