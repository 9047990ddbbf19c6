{{/* The command lines of the parts, one word on each line. */}}
{{- define "basalt.schedulerArguments" -}}
- scheduler
- --conf=/etc/basalt/scheduler/volcano-scheduler.conf
{{- include "basalt.nameArguments" . }}
{{- include "basalt.commonArguments" (dict "root" . "part" "scheduler") }}
{{- include "basalt.electionArguments" . }}
{{- end }}

{{- define "basalt.controllersArguments" -}}
- controllers
- --scheduler-conf=/etc/basalt/scheduler/volcano-scheduler.conf
{{- include "basalt.nameArguments" . }}
{{- include "basalt.commonArguments" (dict "root" . "part" "controllers") }}
{{- include "basalt.electionArguments" . }}
{{- end }}

{{- define "basalt.webhookArguments" -}}
- webhook
{{- include "basalt.nameArguments" . }}
{{- include "basalt.commonArguments" (dict "root" . "part" "webhook") }}
{{- include "basalt.admissionArguments" . }}
{{- end }}

{{- define "basalt.managerArguments" -}}
- manager
- --conf=/etc/basalt/scheduler/volcano-scheduler.conf
{{- include "basalt.nameArguments" . }}
{{- include "basalt.commonArguments" (dict "root" . "part" "manager") }}
{{- include "basalt.electionArguments" . }}
{{- if .Values.webhook.enabled }}
{{- include "basalt.admissionArguments" . }}
{{- else }}
- --no-webhook
{{- end }}
{{- end }}

{{- define "basalt.nameArguments" -}}
{{- range .Values.scheduler.names }}
- --scheduler-name={{ . }}
{{- end }}
{{- end }}

{{- define "basalt.commonArguments" }}
- --metrics-listen=0.0.0.0:{{ include "basalt.port" .part }}
- --log={{ .root.Values.log.filter }}
- --log-format={{ .root.Values.log.format }}
{{- end }}

{{- define "basalt.electionArguments" }}
- --leader-elect-resource-namespace={{ .Values.leaderElection.namespace }}
{{- end }}

{{- define "basalt.admissionArguments" }}
- --webhook-listen=0.0.0.0:8443
- --review-timeout={{ max 1 (sub .Values.webhook.timeoutSeconds 2) }}
- --webhook-drain={{ .Values.webhook.drainSeconds }}
- --max-queue-depth={{ .Values.webhook.maxQueueDepth }}
- --guarantee-share={{ .Values.webhook.guaranteeShare }}
{{- if .Values.webhook.queueAcl }}
- --queue-acl
{{- end }}
{{- if .Values.certManager.enabled }}
- --tls-cert=/etc/basalt/tls/tls.crt
- --tls-key=/etc/basalt/tls/tls.key
{{- end }}
{{- end }}
