{{- define "gputailor.name" -}}
{{- .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "gputailor.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "gputailor.selector" -}}
app.kubernetes.io/name: {{ include "gputailor.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "gputailor.labels" -}}
{{ include "gputailor.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: gputailor
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "gputailor.image" -}}
{{- if eq .image.tag "latest" -}}
{{- fail (printf "image.tag of %s: latest moves under a running cluster; give a version, or leave it empty" .image.repository) -}}
{{- end -}}
{{- $name := printf "%s:%s" .image.repository (.image.tag | default .root.Chart.AppVersion) -}}
{{- if .root.Values.image.registry -}}
{{- printf "%s/%s" (trimSuffix "/" .root.Values.image.registry) $name -}}
{{- else -}}
{{- $name -}}
{{- end -}}
{{- end -}}

{{- define "gputailor.exporterAccount" -}}
{{- default (ternary (printf "%s-exporter" (include "gputailor.fullname" .)) "default" .Values.serviceAccount.create) .Values.serviceAccount.exporterName -}}
{{- end -}}

{{- define "gputailor.agentAccount" -}}
{{- default (ternary (printf "%s-agent" (include "gputailor.fullname" .)) "default" .Values.serviceAccount.create) .Values.serviceAccount.agentName -}}
{{- end -}}

{{- define "gputailor.hasServiceMonitor" -}}
{{- if eq (toString .Values.serviceMonitor.enabled) "true" -}}yes
{{- else if and (eq (toString .Values.serviceMonitor.enabled) "auto") (.Capabilities.APIVersions.Has "monitoring.coreos.com/v1/ServiceMonitor") -}}yes
{{- end -}}
{{- end -}}

{{- define "gputailor.hasPrometheusRule" -}}
{{- if eq (toString .Values.prometheusRule.enabled) "true" -}}yes
{{- else if and (eq (toString .Values.prometheusRule.enabled) "auto") (.Capabilities.APIVersions.Has "monitoring.coreos.com/v1/PrometheusRule") -}}yes
{{- end -}}
{{- end -}}
