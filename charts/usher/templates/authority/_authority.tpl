{{- define "usher.authority.name" -}}
{{ include "usher.fullname" . }}-authority
{{- end }}

{{- define "usher.authority.provisioning" -}}
{{- if or .Values.authority.provisioning.existingSecret .Values.authority.provisioning.config }}true{{ end }}
{{- end }}

{{- define "usher.authority.env" -}}
{{- $a := .Values.authority -}}
- name: UMA_AS_ISSUER
  value: {{ $a.issuer | quote }}
{{- with $a.ownerUrl }}
- name: UMA_AS_OWNER_URL
  value: {{ . | quote }}
{{- end }}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ $a.database.existingSecret }}
      key: {{ $a.database.key }}
- name: UMA_AS_KEYS_FILE
  value: /etc/usher/keys/keys.json
{{- if $a.notificationKey.existingSecret }}
- name: UMA_AS_NOTIFICATION_KEY_FILE
  value: /etc/usher/notification/notification.json
{{- end }}
{{- if $a.logKeys.existingSecret }}
- name: UMA_AS_LOG_KEYS_FILE
  value: /etc/usher/log-keys/log-keys.json
{{- end }}
- name: UMA_AS_LISTEN
  value: {{ printf "%s:9100" .Values.listenAddress | quote }}
- name: UMA_AS_OWNER_LISTEN
  value: {{ printf "%s:9101" .Values.listenAddress | quote }}
- name: UMA_AS_METRICS_LISTEN
  value: {{ printf "%s:9102" .Values.listenAddress | quote }}
- name: UMA_AS_MIGRATE
  value: {{ not $a.migration.job.enabled | quote }}
{{- if include "usher.certificateSecret" (list . "authority" $a.tls) }}
- name: UMA_AS_TLS_CERT_FILE
  value: /etc/usher/tls/tls.crt
- name: UMA_AS_TLS_KEY_FILE
  value: /etc/usher/tls/tls.key
{{- end }}
{{- if include "usher.authority.provisioning" . }}
- name: UMA_AS_PROVISION
  value: /etc/usher/provisioning/provisioning.yaml
{{- end }}
{{- with $a.oidc.existingSecret }}
- name: UMA_AS_OIDC_ISSUER
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ $a.oidc.issuerKey }}
- name: UMA_AS_OIDC_AUDIENCE
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ $a.oidc.audienceKey }}
{{- end }}
{{- include "usher.variables" $a.settings }}
{{- include "usher.commonVariables" (list . $a) }}
{{- end }}

{{- define "usher.authority.mounts" -}}
{{- $a := .Values.authority -}}
- name: keys
  mountPath: /etc/usher/keys
  readOnly: true
{{- if $a.notificationKey.existingSecret }}
- name: notification
  mountPath: /etc/usher/notification
  readOnly: true
{{- end }}
{{- if $a.logKeys.existingSecret }}
- name: log-keys
  mountPath: /etc/usher/log-keys
  readOnly: true
{{- end }}
{{- if include "usher.authority.provisioning" . }}
- name: provisioning
  mountPath: /etc/usher/provisioning
  readOnly: true
{{- end }}
{{- if $a.clientSecrets.existingSecret }}
- name: client-secrets
  mountPath: /etc/usher/client-secrets
  readOnly: true
{{- end }}
{{- if include "usher.certificateSecret" (list . "authority" $a.tls) }}
- name: tls
  mountPath: /etc/usher/tls
  readOnly: true
{{- end }}
{{- include "usher.extraCaMount" . }}
{{- include "usher.more" $a.extraVolumeMounts }}
{{- end }}

{{- define "usher.authority.volumes" -}}
{{- $a := .Values.authority -}}
{{ include "usher.secretVolume" (dict "name" "keys" "secret" $a.keys.existingSecret "items" (dict $a.keys.key "keys.json")) }}
{{- with $a.notificationKey.existingSecret }}
{{ include "usher.secretVolume" (dict "name" "notification" "secret" . "items" (dict $a.notificationKey.key "notification.json")) }}
{{- end }}
{{- with $a.logKeys.existingSecret }}
{{ include "usher.secretVolume" (dict "name" "log-keys" "secret" . "items" (dict $a.logKeys.key "log-keys.json")) }}
{{- end }}
{{- if $a.provisioning.existingSecret }}
{{ include "usher.secretVolume" (dict "name" "provisioning" "secret" $a.provisioning.existingSecret "items" (dict $a.provisioning.key "provisioning.yaml")) }}
{{- else if $a.provisioning.config }}
- name: provisioning
  configMap:
    name: {{ include "usher.authority.name" . }}-provisioning
{{- end }}
{{- with $a.clientSecrets.existingSecret }}
{{ include "usher.secretVolume" (dict "name" "client-secrets" "secret" .) }}
{{- end }}
{{- with include "usher.certificateSecret" (list . "authority" $a.tls) }}
{{ include "usher.secretVolume" (dict "name" "tls" "secret" .) }}
{{- end }}
{{- include "usher.extraCaVolume" . }}
{{- include "usher.more" $a.extraVolumes }}
{{- end }}
