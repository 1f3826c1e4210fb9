{{- define "usher.tally.name" -}}
{{ include "usher.fullname" . }}-tally
{{- end }}

{{- define "usher.tally.env" -}}
{{- $t := .Values.tally -}}
- name: UMA_TALLY_ISSUER
  value: {{ $t.issuer | quote }}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ $t.database.existingSecret }}
      key: {{ $t.database.key }}
- name: UMA_TALLY_KEYS_FILE
  value: /etc/usher/keys/keys.json
- name: UMA_TALLY_PROVISION
  value: /etc/usher/accounts/tally.yaml
- name: UMA_TALLY_LISTEN
  value: {{ printf "%s:9400" .Values.listenAddress | quote }}
- name: UMA_TALLY_METRICS_LISTEN
  value: {{ printf "%s:9402" .Values.listenAddress | quote }}
{{- if include "usher.certificateSecret" (list . "tally" $t.tls) }}
- name: UMA_TALLY_TLS_CERT_FILE
  value: /etc/usher/tls/tls.crt
- name: UMA_TALLY_TLS_KEY_FILE
  value: /etc/usher/tls/tls.key
{{- end }}
{{- include "usher.variables" $t.settings }}
{{- include "usher.commonVariables" (list . $t) }}
{{- end }}

{{- define "usher.tally.mounts" -}}
{{- $t := .Values.tally -}}
- name: keys
  mountPath: /etc/usher/keys
  readOnly: true
- name: accounts
  mountPath: /etc/usher/accounts
  readOnly: true
{{- if $t.clientSecrets.existingSecret }}
- name: client-secrets
  mountPath: /etc/usher/client-secrets
  readOnly: true
{{- end }}
{{- if include "usher.certificateSecret" (list . "tally" $t.tls) }}
- name: tls
  mountPath: /etc/usher/tls
  readOnly: true
{{- end }}
{{- include "usher.extraCaMount" . }}
{{- include "usher.more" $t.extraVolumeMounts }}
{{- end }}

{{- define "usher.tally.volumes" -}}
{{- $t := .Values.tally -}}
{{ include "usher.secretVolume" (dict "name" "keys" "secret" $t.keys.existingSecret "items" (dict $t.keys.key "keys.json")) }}
{{- if $t.accounts.existingSecret }}
{{ include "usher.secretVolume" (dict "name" "accounts" "secret" $t.accounts.existingSecret "items" (dict $t.accounts.key "tally.yaml")) }}
{{- else }}
- name: accounts
  configMap:
    name: {{ include "usher.tally.name" . }}-accounts
{{- end }}
{{- with $t.clientSecrets.existingSecret }}
{{ include "usher.secretVolume" (dict "name" "client-secrets" "secret" .) }}
{{- end }}
{{- with include "usher.certificateSecret" (list . "tally" $t.tls) }}
{{ include "usher.secretVolume" (dict "name" "tls" "secret" .) }}
{{- end }}
{{- include "usher.extraCaVolume" . }}
{{- include "usher.more" $t.extraVolumes }}
{{- end }}
