{{/* The whole template: all of it is immutable in a Job. */}}
{{- define "usher.migration.template" -}}
metadata:
  {{- include "usher.podLabels" (list $ "migration" .Values.authority.podLabels) | nindent 2 }}
spec:
  {{- include "usher.migration.spec" . | nindent 2 }}
{{- end }}

{{- define "usher.migration.spec" -}}
{{- $job := .Values.authority.migration.job -}}
{{ include "usher.podBasics" . }}
restartPolicy: OnFailure
containers:
  - name: migrate
    image: {{ include "usher.image" . | quote }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args: [migrate]
    env:
      - name: DATABASE_URL
        valueFrom:
          secretKeyRef:
            name: {{ $job.existingSecret }}
            key: {{ $job.key }}
      {{- include "usher.commonVariables" (list . (dict "extraEnv" .Values.authority.extraEnv)) | nindent 6 }}
    resources:
      {{- toYaml $job.resources | nindent 6 }}
    {{- include "usher.containerSecurity" . | nindent 4 }}
    {{- with include "usher.extraCaMount" . }}
    volumeMounts:
      {{- . | nindent 6 }}
    {{- end }}
{{- with include "usher.extraCaVolume" . }}
volumes:
  {{- . | nindent 2 }}
{{- end }}
{{- end }}
