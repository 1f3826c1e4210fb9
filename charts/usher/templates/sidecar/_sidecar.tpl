{{- define "usher.sidecar.name" -}}
{{ include "usher.fullname" . }}-sidecar
{{- end }}

{{/* The file of the sidecar: what was given, and the members that follow from where this chart mounts and what it opens. */}}
{{- define "usher.sidecar.file" -}}
{{- $s := .Values.sidecar -}}
{{- $file := deepCopy $s.config -}}
{{- $own := ne $s.mode "container" -}}
{{- $check := $own | ternary .Values.listenAddress "127.0.0.1" -}}
{{- $listen := dict "check" (printf "%s:9191" $check) "http" (printf "%s:9192" .Values.listenAddress) -}}
{{- if $s.checkHttp.enabled -}}
{{- $_ := set $listen "check_http" (printf "%s:9193" $check) -}}
{{- end -}}
{{- $_ := set $file "listen" $listen -}}
{{- $_ := set $file "keys_file" "/etc/usher/keys/keys.json" -}}
{{- if include "usher.certificateSecret" (list . "check" $s.tls) -}}
{{- $_ := set $file "check_tls" (dict "cert_file" "/etc/usher/tls/tls.crt" "key_file" "/etc/usher/tls/tls.key" "client_ca_file" "/etc/usher/tls/ca.crt") -}}
{{- with $s.tls.clientNames -}}
{{- $_ := set $file.check_tls "client_names" . -}}
{{- end -}}
{{- end -}}
{{- if $s.trustedNetwork -}}
{{- $_ := set $file "network_trusted" true -}}
{{- end -}}
{{- if include "usher.certificateSecret" (list . "documents" $s.documentsTls) -}}
{{- $_ := set $file "http_tls" (dict "cert_file" "/etc/usher/documents-tls/tls.crt" "key_file" "/etc/usher/documents-tls/tls.key") -}}
{{- end -}}
{{- if $s.authorityCa.existingSecret -}}
{{- $_ := set $file "authority_ca_file" "/etc/usher/authority-ca/ca.crt" -}}
{{- end -}}
{{- $_ := set $file "reports" (merge (dict) ($file.reports | default dict) (dict "state_dir" "/var/lib/usher")) -}}
{{ toYaml $file }}
{{- end }}

{{- define "usher.sidecar.documentsScheme" -}}
{{- include "usher.certificateSecret" (list . "documents" .Values.sidecar.documentsTls) | empty | ternary "HTTP" "HTTPS" }}
{{- end }}

{{- define "usher.sidecar.container" -}}
{{- $s := .Values.sidecar -}}
{{- $scheme := include "usher.sidecar.documentsScheme" . -}}
name: usher-sidecar
image: {{ include "usher.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [sidecar]
env:
  - name: UMA_PEP_CONFIG
    value: /etc/usher/config/sidecar.yaml
  {{- include "usher.variables" $s.settings | nindent 2 }}
  {{- include "usher.commonVariables" (list . $s) | nindent 2 }}
{{- include "usher.list" (list "envFrom" $s.envFrom) }}
ports:
  {{- if ne $s.mode "container" }}
  - name: check
    containerPort: 9191
  {{- if $s.checkHttp.enabled }}
  - name: check-http
    containerPort: 9193
  {{- end }}
  {{- end }}
  - name: usher-documents
    containerPort: 9192
# Over HTTP: the port of gRPC may want a certificate that the kubelet has not. Not ready is a sidecar that could let
# nothing pass; in the pod of a gateway, which has routes of others too, that takes nobody else out.
startupProbe:
  {{- include "usher.probe" (dict "path" "/health" "port" "usher-documents" "scheme" $scheme "over" $s.startupProbe "times" (dict "periodSeconds" 1 "timeoutSeconds" 2 "failureThreshold" 60)) | nindent 2 }}
readinessProbe:
  {{- include "usher.probe" (dict "path" (eq $s.mode "container" | ternary "/health" "/ready") "port" "usher-documents" "scheme" $scheme "over" $s.readinessProbe "times" (dict "periodSeconds" 2 "timeoutSeconds" 2 "failureThreshold" 2)) | nindent 2 }}
livenessProbe:
  {{- include "usher.probe" (dict "path" "/health" "port" "usher-documents" "scheme" $scheme "over" $s.livenessProbe "times" (dict "periodSeconds" 10 "timeoutSeconds" 5 "failureThreshold" 3)) | nindent 2 }}
resources:
  {{- toYaml $s.resources | nindent 2 }}
{{ include "usher.containerSecurity" . }}
volumeMounts:
  {{- range $volume, $path := include "usher.sidecar.paths" . | fromYaml }}
  - name: {{ $volume }}
    mountPath: /etc/usher/{{ $path }}
    readOnly: true
  {{- end }}
  # Reports that outlive a restart of the container (`reports.state_dir`).
  - name: usher-state
    mountPath: /var/lib/usher
  {{- include "usher.more" $s.extraVolumeMounts | nindent 2 }}
{{- end }}

{{/* Folder below /etc/usher by volume. The volumes bear a prefix, since they may stand in the pod of a gateway. */}}
{{- define "usher.sidecar.paths" -}}
{{- $s := .Values.sidecar -}}
usher-config: config
usher-keys: keys
{{- if $s.clientSecrets.existingSecret }}
usher-client-secrets: client-secrets
{{- end }}
{{- if include "usher.certificateSecret" (list . "check" $s.tls) }}
usher-tls: tls
{{- end }}
{{- if include "usher.certificateSecret" (list . "documents" $s.documentsTls) }}
usher-documents-tls: documents-tls
{{- end }}
{{- if $s.authorityCa.existingSecret }}
usher-authority-ca: authority-ca
{{- end }}
{{- if or .Values.extraCa.existingConfigMap .Values.extraCa.existingSecret }}
usher-extra-ca: extra-ca
{{- end }}
{{- end }}

{{- define "usher.sidecar.volumes" -}}
{{- $s := .Values.sidecar -}}
- name: usher-state
  emptyDir: {}
{{- with $s.existingConfig.existingSecret }}
{{ include "usher.secretVolume" (dict "name" "usher-config" "secret" . "items" (dict $s.existingConfig.key "sidecar.yaml")) }}
{{- else }}
- name: usher-config
  configMap:
    name: {{ include "usher.sidecar.name" . }}
{{- end }}
{{ include "usher.secretVolume" (dict "name" "usher-keys" "secret" $s.keys.existingSecret "items" (dict $s.keys.key "keys.json")) }}
{{- with $s.clientSecrets.existingSecret }}
{{ include "usher.secretVolume" (dict "name" "usher-client-secrets" "secret" .) }}
{{- end }}
{{- with include "usher.certificateSecret" (list . "check" $s.tls) }}
{{ include "usher.secretVolume" (dict "name" "usher-tls" "secret" . "items" (dict "tls.crt" "tls.crt" "tls.key" "tls.key" $s.tls.clientCaKey "ca.crt")) }}
{{- end }}
{{- with include "usher.certificateSecret" (list . "documents" $s.documentsTls) }}
{{ include "usher.secretVolume" (dict "name" "usher-documents-tls" "secret" . "items" (dict "tls.crt" "tls.crt" "tls.key" "tls.key")) }}
{{- end }}
{{- with $s.authorityCa.existingSecret }}
{{ include "usher.secretVolume" (dict "name" "usher-authority-ca" "secret" . "items" (dict $s.authorityCa.key "ca.crt")) }}
{{- end }}
{{- include "usher.extraCaVolume" . }}
{{- include "usher.more" $s.extraVolumes }}
{{- end }}

{{/* The file is read at the start alone, so a change of it must restart. What is not here is either read again by itself (certificates)
     or in a Secret that this chart does not see (keys): `kubectl rollout restart` after changing those. */}}
{{- define "usher.sidecar.annotations" -}}
{{- if not .Values.sidecar.existingConfig.existingSecret }}
checksum/usher-config: {{ include "usher.sidecar.file" . | sha256sum }}
{{- end }}
{{- end }}
