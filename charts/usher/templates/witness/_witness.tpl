{{- define "usher.witness.name" -}}
{{ include "usher.fullname" . }}-witness
{{- end }}

{{- define "usher.witness.env" -}}
{{- $t := .Values.witness -}}
- name: UMA_WITNESS_ISSUER
  value: {{ $t.issuer | quote }}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ $t.database.existingSecret }}
      key: {{ $t.database.key }}
- name: UMA_WITNESS_KEYS_FILE
  value: /etc/usher/keys/keys.json
- name: UMA_WITNESS_LOGS
  value: /etc/usher/issuers/witness.yaml
- name: UMA_WITNESS_LISTEN
  value: {{ printf "%s:9500" .Values.listenAddress | quote }}
- name: UMA_WITNESS_METRICS_LISTEN
  value: {{ printf "%s:9502" .Values.listenAddress | quote }}
{{- if include "usher.certificateSecret" (list . "witness" $t.tls) }}
- name: UMA_WITNESS_TLS_CERT_FILE
  value: /etc/usher/tls/tls.crt
- name: UMA_WITNESS_TLS_KEY_FILE
  value: /etc/usher/tls/tls.key
{{- end }}
{{- include "usher.variables" $t.settings }}
{{- include "usher.commonVariables" (list . $t) }}
{{- end }}

{{- define "usher.witness.mounts" -}}
{{- $t := .Values.witness -}}
- name: keys
  mountPath: /etc/usher/keys
  readOnly: true
- name: issuers
  mountPath: /etc/usher/issuers
  readOnly: true
{{- if include "usher.certificateSecret" (list . "witness" $t.tls) }}
- name: tls
  mountPath: /etc/usher/tls
  readOnly: true
{{- end }}
{{- include "usher.extraCaMount" . }}
{{- include "usher.more" $t.extraVolumeMounts }}
{{- end }}

{{- define "usher.witness.volumes" -}}
{{- $t := .Values.witness -}}
{{ include "usher.secretVolume" (dict "name" "keys" "secret" $t.keys.existingSecret "items" (dict $t.keys.key "keys.json")) }}
{{- if $t.issuers.existingSecret }}
{{ include "usher.secretVolume" (dict "name" "issuers" "secret" $t.issuers.existingSecret "items" (dict $t.issuers.key "witness.yaml")) }}
{{- else }}
- name: issuers
  configMap:
    name: {{ include "usher.witness.name" . }}-issuers
{{- end }}
{{- with include "usher.certificateSecret" (list . "witness" $t.tls) }}
{{ include "usher.secretVolume" (dict "name" "tls" "secret" .) }}
{{- end }}
{{- include "usher.extraCaVolume" . }}
{{- include "usher.more" $t.extraVolumes }}
{{- end }}
