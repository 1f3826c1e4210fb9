{{- define "usher.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* At most 40 characters, so that what is put behind it stays a DNS label. */}}
{{- define "usher.fullname" -}}
{{- $name := include "usher.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "usher.version" -}}
{{- default .Chart.AppVersion .Values.image.tag }}
{{- end }}

{{/* The image without its tag. A registry of all charts takes the place of its own: the first part of it, if that is a host. */}}
{{- define "usher.repository" -}}
{{- $repository := .Values.image.repository -}}
{{- with (default dict .Values.global).imageRegistry -}}
{{- $host := splitList "/" $repository | first -}}
{{- if and (contains "/" $repository) (or (contains "." $host) (contains ":" $host) (eq $host "localhost")) -}}
{{- $repository = trimPrefix (printf "%s/" $host) $repository -}}
{{- end -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) $repository -}}
{{- end -}}
{{- $repository -}}
{{- end }}

{{- define "usher.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" (include "usher.repository" .) .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" (include "usher.repository" .) (include "usher.version" .) }}
{{- end }}
{{- end }}

{{/* Credentials of registries, those of all charts first; empty where there are none. */}}
{{- define "usher.pullSecrets" -}}
{{- $names := list -}}
{{- range concat (default list (default dict .Values.global).imagePullSecrets) (default list .Values.image.pullSecrets) -}}
{{- if kindIs "string" . -}}
{{- $names = append $names . -}}
{{- else -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- end -}}
{{- range $names | uniq }}
- name: {{ . }}
{{- end }}
{{- end }}

{{- define "usher.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "usher.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/*
By these a component's pods are found. A Deployment's selector cannot be changed, so they are made of what never changes within a release:
nameOverride does, under a name that fullnameOverride or the release's own keeps. Call with (list $ "authority").
*/}}
{{- define "usher.selector" -}}
{{- $ := index . 0 -}}
app.kubernetes.io/name: {{ $.Chart.Name }}
app.kubernetes.io/instance: {{ $.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* What every object's metadata begins with; labels come last, and more may follow. Call with (list $ "component" "name"). */}}
{{- define "usher.metadata" -}}
{{- $ := index . 0 -}}
name: {{ index . 2 }}
namespace: {{ $.Release.Namespace }}
{{- with $.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{ include "usher.labels" (list $ (index . 1)) }}
{{- end }}

{{- define "usher.labels" -}}
{{- $ := index . 0 -}}
labels:
  {{- include "usher.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ include "usher.version" $ | trunc 63 | trimSuffix "-" | trimSuffix "." | trimSuffix "_" | quote }}
  app.kubernetes.io/managed-by: {{ $.Release.Service }}
  app.kubernetes.io/part-of: usher
  helm.sh/chart: {{ printf "%s-%s" $.Chart.Name $.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
  {{- with $.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* Of pods: nothing that names the version of the chart, so that a new one alone restarts nobody. Call with (list $ "component" $labels). */}}
{{- define "usher.podLabels" -}}
{{- $ := index . 0 -}}
labels:
  {{- include "usher.selector" . | nindent 2 }}
  {{- with merge (dict) (index . 2) $.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* The same with further annotations. Call with (list $ "component" "name" $annotations). */}}
{{- define "usher.annotated" -}}
{{- $ := index . 0 -}}
name: {{ index . 2 }}
namespace: {{ $.Release.Namespace }}
{{ include "usher.labels" (list $ (index . 1)) }}
{{- with merge (dict) (default dict (index . 3)) $.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The Secret of a certificate: given, or kept by cert-manager; empty where there is neither. Call with (list $ "authority" .Values.authority.tls). */}}
{{- define "usher.certificateSecret" -}}
{{- $tls := index . 2 -}}
{{- if $tls.existingSecret }}
{{- $tls.existingSecret }}
{{- else if $tls.certManager.enabled }}
{{- printf "%s-%s-tls" (include "usher.fullname" (index . 0)) (index . 1) }}
{{- end }}
{{- end }}

{{/* Annotations of the Service that others outside may reach. Call with .Values.authority. */}}
{{- define "usher.publicAnnotations" -}}
{{- merge (dict) (default dict .service.annotations) (default dict .serviceAnnotations) | toYaml }}
{{- end }}

{{/* Whether the sidecar has pods of its own. */}}
{{- define "usher.sidecarService" -}}
{{- if and .Values.sidecar.enabled (ne .Values.sidecar.mode "container") }}true{{ end }}
{{- end }}

{{/* Whether those are one on each node. */}}
{{- define "usher.sidecarOnNodes" -}}
{{- if and .Values.sidecar.enabled (eq .Values.sidecar.mode "daemonset") }}true{{ end }}
{{- end }}

{{/*
The Service of the check ports. That of a DaemonSet has a name of its own: it has an address of the cluster, which a headless Service of the same
name could never be given.
*/}}
{{- define "usher.checkName" -}}
{{- printf "%s-check%s" (include "usher.fullname" .) (include "usher.sidecarOnNodes" . | empty | ternary "" "-local") }}
{{- end }}
