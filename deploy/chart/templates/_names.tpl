{{/* labels of every object: the argument is a list of the root and the component's name, or an empty one */}}
{{- define "tenon.labels" -}}
{{- $root := index . 0 -}}
{{- with index . 1 -}}
app.kubernetes.io/name: {{ . }}
{{ end -}}
app.kubernetes.io/part-of: tenon
{{- if not $root.Values.kustomize }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 }}
{{- end }}
{{- end }}

{{/* the image of a program: the argument is a list of the root, the program's name and its digest */}}
{{- define "tenon.image" -}}
{{- $root := index . 0 -}}
{{- $name := printf "%s/%s" $root.Values.image.registry (index . 1) -}}
{{- if index . 2 -}}
{{ $name }}@{{ index . 2 }}
{{- else -}}
{{ $name }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* subjects of a binding: the argument is a list of names of groups */}}
{{- define "tenon.groups" -}}
{{- range . }}
- apiGroup: rbac.authorization.k8s.io
  kind: Group
  name: {{ . | quote }}
{{- end }}
{{- end }}
