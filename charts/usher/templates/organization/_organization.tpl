{{- define "usher.organization.name" -}}
{{ include "usher.fullname" . }}-organization
{{- end }}

{{- define "usher.organization.env" -}}
{{- $o := .Values.organization -}}
- name: UMA_ORG_ISSUER
  value: {{ $o.issuer | quote }}
- name: UMA_ORG_ID
  value: {{ $o.id | quote }}
- name: UMA_ORG_NAME
  value: {{ $o.name | quote }}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ $o.database.existingSecret }}
      key: {{ $o.database.key }}
- name: UMA_ORG_KEYS_FILE
  value: /etc/usher/keys/keys.json
- name: UMA_ORG_PROVISION
  value: /etc/usher/provisioning/organization.yaml
- name: UMA_ORG_LISTEN
  value: {{ printf "%s:9300" .Values.listenAddress | quote }}
- name: UMA_ORG_ADMIN_LISTEN
  value: {{ printf "%s:9301" .Values.listenAddress | quote }}
- name: UMA_ORG_METRICS_LISTEN
  value: {{ printf "%s:9302" .Values.listenAddress | quote }}
- name: UMA_ORG_MIGRATE
  value: {{ not $o.migration.job.enabled | quote }}
{{- if include "usher.certificateSecret" (list . "organization" $o.tls) }}
- name: UMA_ORG_TLS_CERT_FILE
  value: /etc/usher/tls/tls.crt
- name: UMA_ORG_TLS_KEY_FILE
  value: /etc/usher/tls/tls.key
{{- end }}
{{- with $o.oidc.existingSecret }}
- name: UMA_ORG_OIDC_ISSUER
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ $o.oidc.issuerKey }}
- name: UMA_ORG_OIDC_AUDIENCE
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ $o.oidc.audienceKey }}
{{- end }}
{{- include "usher.variables" $o.settings }}
{{- include "usher.commonVariables" (list . $o) }}
{{- end }}

{{- define "usher.organization.mounts" -}}
{{- $o := .Values.organization -}}
- name: keys
  mountPath: /etc/usher/keys
  readOnly: true
- name: provisioning
  mountPath: /etc/usher/provisioning
  readOnly: true
{{- if $o.credentials.existingSecret }}
- name: credentials
  mountPath: /etc/usher/credentials
  readOnly: true
{{- end }}
{{- if include "usher.certificateSecret" (list . "organization" $o.tls) }}
- name: tls
  mountPath: /etc/usher/tls
  readOnly: true
{{- end }}
{{- include "usher.extraCaMount" . }}
{{- include "usher.more" $o.extraVolumeMounts }}
{{- end }}

{{- define "usher.organization.volumes" -}}
{{- $o := .Values.organization -}}
{{ include "usher.secretVolume" (dict "name" "keys" "secret" $o.keys.existingSecret "items" (dict $o.keys.key "keys.json")) }}
{{- if $o.provisioning.existingSecret }}
{{ include "usher.secretVolume" (dict "name" "provisioning" "secret" $o.provisioning.existingSecret "items" (dict $o.provisioning.key "organization.yaml")) }}
{{- else }}
- name: provisioning
  configMap:
    name: {{ include "usher.organization.name" . }}-provisioning
{{- end }}
{{- with $o.credentials.existingSecret }}
{{ include "usher.secretVolume" (dict "name" "credentials" "secret" .) }}
{{- end }}
{{- with include "usher.certificateSecret" (list . "organization" $o.tls) }}
{{ include "usher.secretVolume" (dict "name" "tls" "secret" .) }}
{{- end }}
{{- include "usher.extraCaVolume" . }}
{{- include "usher.more" $o.extraVolumes }}
{{- end }}
