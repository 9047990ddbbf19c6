{{/* Labels of every object. The argument has the root as .root and the part as .part. */}}
{{- define "basalt.labels" -}}
{{ include "basalt.selector" . }}
app.kubernetes.io/part-of: basalt
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "basalt.selector" -}}
app.kubernetes.io/name: basalt
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .part }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{/* The parts that have a Deployment, as a JSON list: ["manager"], or the three. */}}
{{- define "basalt.parts" -}}
{{- if eq .Values.mode "manager" -}}
["manager"]
{{- else if .Values.webhook.enabled -}}
["scheduler", "controllers", "webhook"]
{{- else -}}
["scheduler", "controllers"]
{{- end -}}
{{- end }}

{{/* Whose pods serve the webhook. */}}
{{- define "basalt.webhookPart" -}}
{{ ternary "manager" "webhook" (eq .Values.mode "manager") }}
{{- end }}

{{- define "basalt.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* The port of /healthz, /readyz and /metrics of a part. */}}
{{- define "basalt.port" -}}
{{ get (dict "controllers" "8081" "webhook" "8082") . | default "8080" }}
{{- end }}

{{/* What every container of ours may do: nothing but its work. */}}
{{- define "basalt.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "basalt.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* volcano-scheduler.conf: the user's, or Volcano's default with what the values change. */}}
{{- define "basalt.schedulerConfiguration" -}}
{{- if .Values.scheduler.configuration -}}
{{ .Values.scheduler.configuration }}
{{- else -}}
actions: "enqueue, allocate, {{ if .Values.scheduler.hierarchy }}reclaim, {{ end }}backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  {{- if .Values.scheduler.hierarchy }}
  - name: capacity
    enableHierarchy: true
  {{- else }}
  - name: proportion
  {{- end }}
  - name: nodeorder
  - name: binpack
  {{- if .Values.scheduler.reservation }}
  - name: node_reservation
  {{- end }}
{{- end }}
{{- end }}
