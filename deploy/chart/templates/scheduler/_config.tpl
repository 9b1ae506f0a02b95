{{/* the scheduler's configuration: the argument is the root */}}
{{- define "tenon.schedulerConfig" -}}
{{- $only := eq .Values.scheduler.mode "only" -}}
# Tenon {{ if $only }}instead of kube-scheduler{{ else }}beside the cluster's own scheduler: pods ask for it with schedulerName: {{ .Values.scheduler.name }}{{ end }}. All that
# may stand here is in docs/reference/scheduler.md.
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
# Each binding is a request. By default a scheduler makes 50 per second, less than it decides in any cluster.
clientConnection:
  qps: {{ .Values.scheduler.qps }}
  burst: {{ .Values.scheduler.burst }}
leaderElection:
  leaderElect: true
  resourceNamespace: {{ .Release.Namespace }}
  resourceName: tenon-scheduler
profiles:
{{- if .Values.scheduler.profiles }}
{{ toYaml .Values.scheduler.profiles }}
{{- else }}
- schedulerName: {{ if $only }}default-scheduler{{ else }}{{ .Values.scheduler.name }}{{ end }}
  plugins:
    multiPoint:
      enabled:
      - name: Tenon
        weight: {{ .Values.scheduler.weight }}
  pluginConfig:
  - name: Tenon
    args:
      apiVersion: tenon.sh/v1alpha1
      kind: TenonArgs
      {{- with .Values.scheduler.arguments }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
{{- end }}
{{- end }}
