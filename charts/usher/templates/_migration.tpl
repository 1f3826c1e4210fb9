{{/*
A Job that migrates one database. Named by the version, and by the whole of its template, labels too: a Job's template cannot be changed. Any
number of them may run: one lock lets one work at a time, and the others find nothing left to do. No hook: an upgrade whose hook failed leaves
a release that can neither go on nor back. At most 63 characters, which every label of its pods may have. Call with
(dict "root" $ "of" .Values.authority "component" "migration" "name" "migrate" "args" (list "migrate")).
*/}}
{{- define "usher.migration" -}}
{{- $ := .root -}}
{{- $job := .of.migration.job }}
{{- $template := include "usher.migration.template" . }}
{{- $version := include "usher.version" $ | lower | replace "." "-" | replace "_" "-" | trunc 10 | trimSuffix "-" }}
{{- $begin := sub 42 (len .name) | int }}
{{- $full := include "usher.fullname" $ | trunc $begin | trimSuffix "-" }}
apiVersion: batch/v1
kind: Job
metadata:
  {{- include "usher.metadata" (list $ .component (printf "%s-%s-%s-%s" $full .name $version ($template | sha256sum | trunc 8))) | nindent 2 }}
spec:
  backoffLimit: {{ $job.backoffLimit }}
  template:
    {{- $template | nindent 4 }}
{{- end }}

{{/* The whole template: all of it is immutable in a Job. */}}
{{- define "usher.migration.template" -}}
{{- $ := .root -}}
metadata:
  {{- include "usher.podLabels" (list $ .component .of.podLabels) | nindent 2 }}
spec:
  {{- include "usher.migration.spec" . | nindent 2 }}
{{- end }}

{{- define "usher.migration.spec" -}}
{{- $ := .root -}}
{{- $job := .of.migration.job -}}
{{ include "usher.podBasics" $ }}
restartPolicy: OnFailure
containers:
  - name: migrate
    image: {{ include "usher.image" $ | quote }}
    imagePullPolicy: {{ $.Values.image.pullPolicy }}
    args: {{ .args | toJson }}
    env:
      - name: DATABASE_URL
        valueFrom:
          secretKeyRef:
            name: {{ $job.existingSecret }}
            key: {{ $job.key }}
      {{- include "usher.commonVariables" (list $ (dict "extraEnv" .of.extraEnv)) | nindent 6 }}
    {{- include "usher.list" (list "envFrom" .of.envFrom) | nindent 4 }}
    resources:
      {{- toYaml $job.resources | nindent 6 }}
    {{- include "usher.containerSecurity" $ | nindent 4 }}
    {{- with printf "%s%s" (include "usher.extraCaMount" $) (include "usher.more" .of.extraVolumeMounts) }}
    volumeMounts:
      {{- . | nindent 6 }}
    {{- end }}
{{- with printf "%s%s" (include "usher.extraCaVolume" $) (include "usher.more" .of.extraVolumes) }}
volumes:
  {{- . | nindent 2 }}
{{- end }}
{{- end }}
