{{/*
Each template of this folder has a line for each fault that it finds: a sentence that names the values and what to do. refusals.yaml gathers them.
This one: what a role cannot run without.
*/}}
{{- define "usher.refusals.roles" -}}
{{- $what := dict "database.existingSecret" "a Secret with the URL of Postgres" "keys.existingSecret" "a Secret with private keys" }}
{{- $_ := set $what "issuer" "a public base URL, such as https://as.example.com" }}
{{- $_ := set $what "id" "a name in tokens and records" }}
{{- $_ := set $what "name" "the name that its members see" }}
{{- range $role, $more := dict "authority" (list "issuer") "tally" (list "issuer") "witness" (list "issuer") "organization" (list "issuer" "id" "name") "sidecar" list }}
{{- $of := index $.Values $role }}
{{- if $of.enabled }}
{{- $needed := append $more "keys.existingSecret" }}
{{- if ne $role "sidecar" }}
{{- $needed = append $needed "database.existingSecret" }}
{{- end }}
{{- range $path := $needed }}
{{- if not (include "usher.refusals.text" (list $of $path)) }}
{{ $role }}.{{ $path }} is empty, and {{ $role }}.enabled is true: set {{ $role }}.{{ $path }} to {{ index $what $path }}, or {{ $role }}.enabled to false.
{{- end }}
{{- end }}
{{- with $of.migration }}
{{- if and .job.enabled (not .job.existingSecret) }}
{{ $role }}.migration.job.existingSecret is empty, and {{ $role }}.migration.job.enabled is true: name the Secret with the URL of the role that migrates.
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The value at a path, as text; empty if there is none. Call with (list .Values.tally "keys.existingSecret"). */}}
{{- define "usher.refusals.text" -}}
{{- $value := index . 0 -}}
{{- range splitList "." (index . 1) -}}
{{- $value = index (default dict $value) . -}}
{{- end -}}
{{- if $value }}{{ kindIs "string" $value | ternary $value (toJson $value) }}{{ end -}}
{{- end }}

{{/* Files that are a value or in a Secret, and the Secrets that they name; certificates. */}}
{{- define "usher.refusals.files" -}}
{{- $secrets := "/etc/usher/client-secrets" }}
{{- $files := list (list "authority" "provisioning.config" "provisioning.existingSecret" "clientSecrets" $secrets) }}
{{- $files = append $files (list "tally" "accounts.config" "accounts.existingSecret" "clientSecrets" $secrets) }}
{{- $files = append $files (list "witness" "issuers.config" "issuers.existingSecret" "" "") }}
{{- $files = append $files (list "organization" "provisioning.config" "provisioning.existingSecret" "credentials" "/etc/usher/credentials") }}
{{- $files = append $files (list "sidecar" "config" "existingConfig.existingSecret" "clientSecrets" $secrets) }}
{{- range $files }}
{{- $role := index . 0 }}
{{- $of := index $.Values $role }}
{{- $config := include "usher.refusals.text" (list $of (index . 1)) }}
{{- $secret := include "usher.refusals.text" (list $of (index . 2)) }}
{{- if and $config $secret }}
{{ $role }}.{{ index . 1 }} and {{ $role }}.{{ index . 2 }} are both set, and one file is read: leave one of them empty.
{{- else if and $of.enabled (ne $role "authority") (not $config) (not $secret) }}
{{ $role }}.{{ index . 1 }} and {{ $role }}.{{ index . 2 }} are both empty, and {{ $role }}.enabled is true: set one of them.
{{- end }}
{{- $value := index . 3 }}
{{- $directory := index . 4 }}
{{- if and $of.enabled $value (contains (printf "%s/" $directory) $config) (not (include "usher.refusals.text" (list $of (printf "%s.existingSecret" $value)))) }}
{{- if not (contains $directory (include "usher.refusals.text" (list $of "extraVolumeMounts"))) }}
{{ $role }}.{{ index . 1 }} names files in {{ $directory }}, and {{ $role }}.{{ $value }}.existingSecret is empty: name the Secret there whose keys are these files.
{{- end }}
{{- end }}
{{- end }}
{{- range list "authority.tls" "tally.tls" "witness.tls" "organization.tls" "sidecar.tls" "sidecar.documentsTls" }}
{{- if include "usher.refusals.text" (list $.Values (printf "%s.certManager.enabled" .)) }}
{{- if include "usher.refusals.text" (list $.Values (printf "%s.existingSecret" .)) }}
{{ . }}.existingSecret is set, and {{ . }}.certManager.enabled is true: leave the one empty or set the other to false, because one certificate is served.
{{- end }}
{{- if not (include "usher.refusals.text" (list $.Values (printf "%s.certManager.issuerRef.name" .))) }}
{{ . }}.certManager.issuerRef.name is empty, and {{ . }}.certManager.enabled is true: name the issuer that signs the certificate.
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.extraCa.existingConfigMap .Values.extraCa.existingSecret }}
extraCa.existingConfigMap and extraCa.existingSecret are both set, and one of them is mounted: leave one empty, and put all certificates into the other.
{{- end }}
{{- end }}
