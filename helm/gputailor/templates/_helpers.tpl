{{- /* Helm renders the deepest folder first: tests/ready.yaml asks this before anything else. */ -}}
{{- define "gputailor.guard" -}}
{{- range list "preset" "monitoring" "networkPolicy" -}}
{{- if not (hasKey $.Values .) -}}
{{- fail (printf "%s is missing: these are the values of an older chart (helm upgrade --reuse-values); give --reset-then-reuse-values instead" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

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

{{- /* Registry, name, and a digest or a tag that does not move. */ -}}
{{- define "gputailor.image" -}}
{{- if eq .image.tag "latest" -}}
{{- fail (printf "image.tag of %s: latest moves under a running cluster; give a version, or leave it empty" .image.repository) -}}
{{- end -}}
{{- $name := printf "%s:%s" .image.repository (.image.tag | default .root.Chart.AppVersion) -}}
{{- with .image.digest -}}
{{- $name = printf "%s@%s" $.image.repository . -}}
{{- end -}}
{{- $registry := .root.Values.global.imageRegistry | default .root.Values.image.registry -}}
{{- if $registry -}}
{{- printf "%s/%s" (trimSuffix "/" $registry) $name -}}
{{- else -}}
{{- $name -}}
{{- end -}}
{{- end -}}

{{- define "gputailor.pullSecrets" -}}
{{- $names := list -}}
{{- range concat (.Values.image.pullSecrets | default list) (.Values.global.imagePullSecrets | default list) -}}
{{- if kindIs "map" . -}}
{{- $names = append $names .name -}}
{{- else -}}
{{- $names = append $names . -}}
{{- end -}}
{{- end -}}
{{- with uniq $names -}}
imagePullSecrets:
{{- range . }}
  - name: {{ . | quote }}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "gputailor.exporterAccount" -}}
{{- default (ternary (printf "%s-exporter" (include "gputailor.fullname" .)) "default" .Values.serviceAccount.create) .Values.serviceAccount.exporterName -}}
{{- end -}}

{{- define "gputailor.agentAccount" -}}
{{- default (ternary (printf "%s-agent" (include "gputailor.fullname" .)) "default" .Values.serviceAccount.create) .Values.serviceAccount.agentName -}}
{{- end -}}

{{- define "gputailor.exporterNamespace" -}}
{{- .Values.exporter.namespace | default .Release.Namespace -}}
{{- end -}}

{{- define "gputailor.exporterHost" -}}
{{- printf "%s-exporter.%s.svc" (include "gputailor.fullname" .) (include "gputailor.exporterNamespace" .) -}}
{{- end -}}

{{- /* Whether a Secret says where the store is, which is PostgreSQL then: no volume is needed. */ -}}
{{- define "gputailor.storeIsSecret" -}}
{{- $files := .Values.agent.secretFiles | default dict -}}
{{- $secrets := .Values.agent.secretSettings | default dict -}}
{{- if or .Values.agent.postgresql.existingSecret (hasKey $files "store_file") (hasKey $secrets "store") -}}
true
{{- end -}}
{{- end -}}

{{- /* Name of the exporter's PriorityClass: what is named, else what is made, else none. */ -}}
{{- define "gputailor.exporterPriority" -}}
{{- if .Values.exporter.priorityClassName -}}
{{- .Values.exporter.priorityClassName -}}
{{- else if .Values.priorityClass.create -}}
{{- printf "%s-%s-exporter" .Release.Namespace (include "gputailor.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- /* How the driver comes into the exporter, as YAML: values that are set win over the preset. */ -}}
{{- define "gputailor.driver" -}}
{{- $preset := get (.Files.Get "presets.yaml" | fromYaml) .Values.preset | default dict -}}
{{- $found := dict "by" ($preset.by | default "runtime") -}}
{{- range $name, $given := dict "privileged" .Values.exporter.privileged "cdiSpecs" .Values.exporter.cdiSpecs "devicesByMount" .Values.exporter.driver.devicesByMount -}}
{{- $_ := set $found $name (ternary (get $preset $name | default false) $given (eq (toString $given) "auto")) -}}
{{- end -}}
{{- if ne .Values.exporter.driver.by "auto" -}}
{{- $_ := set $found "by" .Values.exporter.driver.by -}}
{{- end -}}
{{- if eq $found.by "host" -}}
{{- $given := .Values.exporter.driver -}}
{{- if and $given.hostFolder $given.hostLibrary -}}
{{- fail "exporter.driver: hostFolder and hostLibrary are both set; a driver comes by one of them" -}}
{{- end -}}
{{- $chosen := ternary $preset $given (empty (or $given.hostFolder $given.hostLibrary)) -}}
{{- if not (or $chosen.hostFolder $chosen.hostLibrary) -}}
{{- fail "exporter.driver.by is host: set exporter.driver.hostFolder (with lib64 below it) or exporter.driver.hostLibrary (libnvidia-ml.so.1), or a preset that knows it (gke, bare)" -}}
{{- end -}}
{{- $_ := set $found "hostFolder" ($chosen.hostFolder | default "") -}}
{{- $_ := set $found "hostLibrary" ($chosen.hostLibrary | default "") -}}
{{- end -}}
{{- $class := ternary ($preset.runtimeClassName | default "") "" (eq $found.by "runtime") -}}
{{- $_ := set $found "runtimeClassName" (.Values.exporter.runtimeClassName | default $class) -}}
{{- $seLinux := .Values.exporter.seLinuxOptions -}}
{{- if and (not $seLinux) $preset.seLinuxType -}}
{{- $seLinux = dict "type" $preset.seLinuxType -}}
{{- end -}}
{{- $_ := set $found "seLinuxOptions" $seLinux -}}
{{- $found | toYaml -}}
{{- end -}}

{{- define "gputailor.openShift" -}}
{{- if (get (.Files.Get "presets.yaml" | fromYaml) .Values.preset | default dict).openShift -}}yes{{- end -}}
{{- end -}}

{{- /* "yes" where `.enabled` is true, or auto and the cluster has the kind `.kind`. */ -}}
{{- define "gputailor.wanted" -}}
{{- if eq (toString .enabled) "true" -}}yes
{{- else if and (eq (toString .enabled) "auto") (.root.Capabilities.APIVersions.Has .kind) -}}yes
{{- end -}}
{{- end -}}

{{- /* As above for an object of Prometheus' operator, of which `.victoria` is the other's kind: where
       its own are asked for, auto is no; and both would scrape and warn twice. */ -}}
{{- define "gputailor.prometheus" -}}
{{- $instead := eq (toString .root.Values.victoriaMetrics.enabled) "true" -}}
{{- if and $instead (eq (toString .enabled) "true") -}}
{{- fail (printf "%s and victoriaMetrics.enabled are both true: VictoriaMetrics' operator takes Prometheus' objects, too, and would scrape and warn twice; set one of them to false" .name) -}}
{{- end -}}
{{- if not (and $instead (eq (toString .enabled) "auto")) -}}
{{- include "gputailor.wanted" . -}}
{{- end -}}
{{- end -}}

{{- define "gputailor.hasPodMonitor" -}}
{{- include "gputailor.prometheus" (dict "root" . "name" "podMonitor.enabled" "enabled" .Values.podMonitor.enabled "kind" "monitoring.coreos.com/v1/PodMonitor") -}}
{{- end -}}

{{- define "gputailor.hasServiceMonitor" -}}
{{- if not (include "gputailor.hasPodMonitor" .) -}}
{{- include "gputailor.prometheus" (dict "root" . "name" "serviceMonitor.enabled" "enabled" .Values.serviceMonitor.enabled "kind" "monitoring.coreos.com/v1/ServiceMonitor") -}}
{{- end -}}
{{- end -}}

{{- define "gputailor.hasMonitor" -}}
{{- include "gputailor.hasPodMonitor" . -}}{{- include "gputailor.hasServiceMonitor" . -}}
{{- end -}}

{{- define "gputailor.hasPrometheusRule" -}}
{{- include "gputailor.prometheus" (dict "root" . "name" "prometheusRule.enabled" "enabled" .Values.prometheusRule.enabled "kind" "monitoring.coreos.com/v1/PrometheusRule") -}}
{{- end -}}

{{- define "gputailor.hasVmScrape" -}}
{{- if not (include "gputailor.hasMonitor" .) -}}
{{- include "gputailor.wanted" (dict "root" . "enabled" .Values.victoriaMetrics.enabled "kind" "operator.victoriametrics.com/v1beta1/VMServiceScrape") -}}
{{- end -}}
{{- end -}}

{{- define "gputailor.hasVmRule" -}}
{{- if not (include "gputailor.hasPrometheusRule" .) -}}
{{- include "gputailor.wanted" (dict "root" . "enabled" .Values.victoriaMetrics.enabled "kind" "operator.victoriametrics.com/v1beta1/VMRule") -}}
{{- end -}}
{{- end -}}

{{- /* Rule files or dashboards (by `.pattern`) on our own metrics, and on those of other exporters that
       are asked for by a value of the name that their file ends with: a list of paths. */ -}}
{{- define "gputailor.chosen" -}}
{{- $found := list -}}
{{- range $path, $_ := .root.Files.Glob .pattern -}}
{{- $other := "" -}}
{{- range list "dcgm" "smi" -}}
{{- if hasSuffix (printf "-%s" .) (trimSuffix (ext $path) $path) -}}{{- $other = . -}}{{- end -}}
{{- end -}}
{{- if or (not $other) (get $.root.Values $other) -}}
{{- $found = append $found $path -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{- /* Name of the object that holds the rule file `.path`. */ -}}
{{- define "gputailor.ruleName" -}}
{{- include "gputailor.fullname" .root -}}{{- base .path | trimSuffix ".yaml" | trimPrefix "gputailor" -}}
{{- end -}}

{{- define "gputailor.hasGrafanaDashboard" -}}
{{- include "gputailor.wanted" (dict "root" . "enabled" .Values.dashboards.operator.enabled "kind" "grafana.integreatly.org/v1beta1/GrafanaDashboard") -}}
{{- end -}}

{{- /* Annotations that plain scrape configurations look for; nothing where monitors are. */ -}}
{{- define "gputailor.scrapeAnnotations" -}}
{{- $given := toString .root.Values.monitoring.scrapeAnnotations -}}
{{- $monitored := or (include "gputailor.hasMonitor" .root) (include "gputailor.hasVmScrape" .root) -}}
{{- if or (eq $given "true") (and (eq $given "auto") (not $monitored)) -}}
prometheus.io/scrape: "true"
prometheus.io/port: {{ .port | quote }}
prometheus.io/path: /metrics
prometheus.io/scheme: {{ .scheme }}
{{- end -}}
{{- end -}}

{{- define "gputailor.exporterScheme" -}}
{{- .Values.exporter.web.tls | ternary "https" "http" -}}
{{- end -}}

{{- /* One endpoint of a monitor of `.component`; the exporters' workloads keep their own labels. */ -}}
{{- define "gputailor.endpoint" -}}
{{- $one := dict "port" .port "path" "/metrics" "interval" .root.Values.serviceMonitor.interval -}}
{{- if eq .component "exporter" -}}
{{- if .root.Values.exporter.web.tls }}{{ $_ := set $one "scheme" "https" }}{{ end -}}
{{- $one = merge $one (.root.Values.monitoring.exporterEndpoint | default dict) -}}
{{- end -}}
{{- toYaml $one -}}
{{- end -}}

{{- /* Components that are installed, with their port and namespace. */ -}}
{{- define "gputailor.components" -}}
{{- if .Values.exporter.enabled }}
exporter: {port: metrics, namespace: {{ include "gputailor.exporterNamespace" . | quote }}}
{{- end }}
{{- if .Values.agent.enabled }}
agent: {port: http, namespace: {{ .Release.Namespace | quote }}}
{{- end }}
{{- end -}}
