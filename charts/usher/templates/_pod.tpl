{{/* What every pod is held to: the restricted Pod Security Standard, and no right towards the API server. */}}
{{- define "usher.podBasics" -}}
serviceAccountName: {{ include "usher.serviceAccount" . }}
automountServiceAccountToken: false
# Each Service of the namespace would put variables into the pod, which nobody here reads.
enableServiceLinks: false
{{- with include "usher.pullSecrets" . }}
imagePullSecrets:
  {{- . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- with .Values.security.runAsUser }}
  runAsUser: {{ int64 . }}
  {{- end }}
  {{- with .Values.security.runAsGroup }}
  runAsGroup: {{ int64 . }}
  {{- end }}
  {{- with .Values.security.fsGroup }}
  fsGroup: {{ int64 . }}
  fsGroupChangePolicy: OnRootMismatch
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "usher.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  # Said here as well, since the container may stand in the pod of a gateway.
  runAsNonRoot: true
  {{- with .Values.security.runAsUser }}
  runAsUser: {{ int64 . }}
  {{- end }}
  {{- with .Values.security.runAsGroup }}
  runAsGroup: {{ int64 . }}
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
  capabilities:
    drop: [ALL]
{{- end }}

{{/* Where the pods of a component go. Call with (list $ "authority" .Values.authority). */}}
{{- define "usher.scheduling" -}}
{{- $of := index . 2 -}}
{{- with $of.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $of.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $of.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $of.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  {{- if $of.topologySpreadConstraints }}
  {{- toYaml $of.topologySpreadConstraints | nindent 2 }}
  {{- else }}
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "usher.selector" $ | nindent 8 }}
  {{- end }}
  {{- end }}
{{- end }}

{{/* Variables by their names: lists become words between commas, numbers plain digits. */}}
{{- define "usher.variables" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  {{- if kindIs "slice" $value }}
  value: {{ join "," $value | quote }}
  {{- else if kindIs "string" $value }}
  value: {{ $value | quote }}
  {{- else }}
  value: {{ toJson $value | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Variables that every process has. Call with (list $ .Values.authority). */}}
{{- define "usher.commonVariables" -}}
{{- $ := index . 0 -}}
{{- with $.Values.specNs }}
- name: UMA_SPEC_NS
  value: {{ . | quote }}
{{- end }}
{{- if or $.Values.extraCa.existingConfigMap $.Values.extraCa.existingSecret }}
- name: NODE_EXTRA_CA_CERTS
  value: /etc/usher/extra-ca/{{ $.Values.extraCa.key }}
{{- end }}
{{- include "usher.variables" $.Values.tracing }}
{{- with (index . 1).extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* A mounted Secret: readable to the group of the pod and to nobody else. Call with (dict "name" "keys" "secret" "…" "items" (dict "key" "path")). */}}
{{- define "usher.secretVolume" -}}
- name: {{ .name }}
  secret:
    secretName: {{ .secret }}
    # Private keys that others can read are refused.
    defaultMode: 0440
    {{- with .items }}
    items:
      {{- range $key, $path := . }}
      - key: {{ $key }}
        path: {{ $path }}
      {{- end }}
    {{- end }}
{{- end }}

{{- define "usher.extraCaVolume" -}}
{{- with .Values.extraCa.existingConfigMap }}
- name: usher-extra-ca
  configMap:
    name: {{ . }}
{{- else }}
{{- with .Values.extraCa.existingSecret }}
{{- /* That key alone: the Secret of a CA may hold its private key, too. */}}
{{ include "usher.secretVolume" (dict "name" "usher-extra-ca" "secret" . "items" (dict $.Values.extraCa.key $.Values.extraCa.key)) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "usher.extraCaMount" -}}
{{- if or .Values.extraCa.existingConfigMap .Values.extraCa.existingSecret }}
- name: usher-extra-ca
  mountPath: /etc/usher/extra-ca
  readOnly: true
{{- end }}
{{- end }}

{{/* Seconds between SIGTERM and the end: the drain and 20 more, never fewer than the drain and 15. Call with (list $milliseconds $wanted). */}}
{{- define "usher.grace" -}}
{{- $drain := div (add (int64 (index . 0)) 999) 1000 -}}
{{- $wanted := int64 (index . 1) -}}
{{- if $wanted }}{{ max $wanted (add $drain 15) }}{{ else }}{{ add $drain 20 }}{{ end }}
{{- end }}

{{/*
Truthful about this process alone: neither asks the other, or the registry. `over` has the times that the operator gives instead.
Call with (dict "path" "port" "scheme" "times" (dict …) "over" .Values.authority.livenessProbe).
*/}}
{{- define "usher.probe" -}}
httpGet:
  path: {{ .path }}
  port: {{ .port }}
  scheme: {{ .scheme }}
{{ merge (dict) (default dict .over) .times | toYaml }}
{{- end }}

{{/* The probes of a role with a database. Call with (dict "of" .Values.authority "scheme" "HTTP"). */}}
{{- define "usher.probes" -}}
# Migrations run before it listens, one pod at a time; a pod waits ten minutes for another that migrates.
startupProbe:
  {{- include "usher.probe" (dict "path" "/health" "port" "public" "scheme" .scheme "over" .of.startupProbe "times" (dict "periodSeconds" 2 "timeoutSeconds" 2 "failureThreshold" 450)) | nindent 2 }}
# Not ready is a reason to ask another replica (its clock is off, it drains), never to restart this one.
readinessProbe:
  {{- include "usher.probe" (dict "path" "/ready" "port" "public" "scheme" .scheme "over" .of.readinessProbe "times" (dict "periodSeconds" 2 "timeoutSeconds" 2 "failureThreshold" 2)) | nindent 2 }}
livenessProbe:
  {{- include "usher.probe" (dict "path" "/health" "port" "public" "scheme" .scheme "over" .of.livenessProbe "times" (dict "periodSeconds" 10 "timeoutSeconds" 5 "failureThreshold" 3)) | nindent 2 }}
{{- end }}

{{/* A list of Kubernetes' own under its name, if there is anything in it. Call with (list "envFrom" .Values.authority.envFrom). */}}
{{- define "usher.list" -}}
{{- with index . 1 }}
{{ index $ 0 }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What is put behind the items of a list that is there already. Call with .Values.authority.extraVolumes. */}}
{{- define "usher.more" -}}
{{- with . }}
{{ toYaml . }}
{{- end }}
{{- end }}
