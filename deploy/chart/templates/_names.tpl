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
{{- if not $root.Values.image.tag }}{{ include "tenon.imagesExist" $root }}{{ end -}}
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

{{/* fails where the chart would name images that nobody can have: Helm would report success, and no pod would start */}}
{{- define "tenon.imagesExist" -}}
{{- $version := .Chart.AppVersion -}}
{{- if eq $version "0.0.0-dev" -}}
{{- fail "image.tag: no image has the version 0.0.0-dev of a clone's chart: run `make push REGISTRY=...` and install the chart that this writes, dist/tenon-*.tgz, or set image.registry and image.tag to images that you have pushed" -}}
{{- else if and (hasPrefix "0.0.0-" $version) (eq .Values.image.registry "ghcr.io/tenon-numa") (ne .Values.image.pullPolicy "Never") -}}
{{- fail (printf "image.registry: no images of the development version %s are published: run `make push REGISTRY=...` and set image.registry to that registry, or import the images into every node and set image.pullPolicy to Never" $version) -}}
{{- end -}}
{{- end }}

{{/* annotations of objects that have to be in force before the agents start; Helm and kubectl need none */}}
{{- define "tenon.first" -}}
argocd.argoproj.io/sync-wave: "-1"
{{- end }}
