{{- /* SPDX-License-Identifier: Apache-2.0 */}}
{{- define "bulkhead.name" -}}
{{- if contains "bulkhead" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-bulkhead" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "bulkhead.selector" -}}
app.kubernetes.io/name: bulkhead
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "bulkhead.labels" -}}
{{ include "bulkhead.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "bulkhead.account" -}}
{{ .Values.serviceAccount.name | default (include "bulkhead.name" .) }}
{{- end }}

{{/* The Secret with the exporter's files; empty if there is none. */}}
{{- define "bulkhead.secret" -}}
{{- if .Values.secret.existing }}{{ .Values.secret.existing }}{{ else if .Values.secret.files }}{{ include "bulkhead.name" . }}{{ end }}
{{- end }}

{{/* bulkhead.conf. Helm reads numbers as floats, which must not be written as 1e+06. */}}
{{- define "bulkhead.configuration" -}}
{{- if dig "agent" "run_directory" "" .Values.config }}{{ fail "config.agent.run_directory: the directories of the sockets are fixed" }}{{ end }}
{{- if dig "spool" "directory" "" .Values.config }}{{ fail "config.spool.directory: use spool.hostPath" }}{{ end }}
{{- if dig "runtimes" "strict_memory" false .Values.config }}{{ fail "config.runtimes.strict_memory: the capabilities and profiles of this chart are those of the usual mode" }}{{ end }}
{{- $config := deepCopy .Values.config }}
{{- if .Values.debugDirectories }}
{{- $config = mergeOverwrite $config (dict "symbols" (dict "directories" (join ":" .Values.debugDirectories))) }}
{{- end }}
{{- range $section, $keys := $config }}
[{{ $section }}]
{{- range $key, $value := $keys }}
{{ $key }} = {{ if kindIs "float64" $value }}{{ $value | int64 }}{{ else }}{{ $value }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The port of the backend; empty if it is a Unix socket. */}}
{{- define "bulkhead.port" -}}
{{- $endpoint := dig "export" "endpoint" "http://localhost:4317" .Values.config }}
{{- if .Values.networkPolicy.port }}{{ .Values.networkPolicy.port | int64 }}
{{- else if not (hasPrefix "unix:" $endpoint) }}{{ regexFind ":[0-9]+$" (regexReplaceAll "^(https?://[^/]*)/.*$" $endpoint "${1}") | trimPrefix ":" | default "4317" }}
{{- end }}
{{- end }}
