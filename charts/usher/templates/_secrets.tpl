{{/*
The Secrets that the pods of this release wait for, a line each: name, keys, what is in it. docs/kubernetes.md has the same as a table.
What an operator adds by `extraVolumes`, `extraEnv` and `envFrom` is not among them.
*/}}
{{- define "usher.secrets" -}}
{{- $lines := list -}}
{{- $contents := dict "database" "the URL of Postgres" "keys" "the private keys" "notificationKey" "the key by which owners are notified" "logKeys" "the keys that sign checkpoints of ledgers" "provisioning" "the provisioning file" "existingConfig" "the file" "accounts" "the accounts" "issuers" "the file of issuers" "clientSecrets" "a key for each client_secret_file" "credentials" "a key for each credential_file" "authorityCa" "the CA of the authority" "oidc" "issuer and audience of the realm" -}}
{{- range $role := list "authority" "sidecar" "tally" "witness" "organization" -}}
{{- $of := index $.Values $role -}}
{{- if $of.enabled -}}
{{- range $member, $content := $contents -}}
{{- $at := default dict (index $of $member) -}}
{{- if $at.existingSecret -}}
{{- $keys := list $at.key $at.issuerKey $at.audienceKey | compact -}}
{{- $lines = append $lines (include "usher.secretLine" (list $at.existingSecret $keys (printf "for the %s, %s" $role $content))) -}}
{{- end -}}
{{- end -}}
{{- $job := default dict (default dict $of.migration).job -}}
{{- if $job.enabled -}}
{{- $lines = append $lines (include "usher.secretLine" (list $job.existingSecret (list $job.key) (printf "for the %s, the URL of Postgres for the role that migrates" $role))) -}}
{{- end -}}
{{- $tls := list (list $role $of.tls (list "tls.crt" "tls.key") (printf "for the %s, its certificate" $role)) -}}
{{- if eq $role "sidecar" -}}
{{- $tls = list (list "check" $of.tls (list "tls.crt" "tls.key" $of.tls.clientCaKey) "for the sidecar, the certificate of the check port and the CA of those who may ask") -}}
{{- $tls = append $tls (list "documents" $of.documentsTls (list "tls.crt" "tls.key") "for the sidecar, the certificate of the documents") -}}
{{- end -}}
{{- range $tls -}}
{{- $secret := include "usher.certificateSecret" (list $ (index . 0) (index . 1)) -}}
{{- if $secret -}}
{{- $by := (index . 1).certManager.enabled | ternary "; cert-manager makes it" "" -}}
{{- $lines = append $lines (include "usher.secretLine" (list $secret (index . 2) (printf "%s%s" (index . 3) $by))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.extraCa.existingSecret -}}
{{- $lines = append $lines (include "usher.secretLine" (list . (list $.Values.extraCa.key) "for every pod, certificates of private CAs")) -}}
{{- end -}}
{{- with include "usher.test.clientCertificate" . -}}
{{- $lines = append $lines (include "usher.secretLine" (list . (list "tls.crt" "tls.key" "ca.crt") "for helm test, what it shows to the check port")) -}}
{{- end -}}
{{- join "\n" $lines -}}
{{- end }}

{{/* Call with (list $name $keys "what is in it"). */}}
{{- define "usher.secretLine" -}}
{{- $keys := index . 1 -}}
{{ index . 0 }}{{ with $keys }} ({{ join ", " . }}){{ end }}: {{ index . 2 }}
{{- end }}

{{/* The Secret that the pod of `helm test` mounts, empty if it mounts none. */}}
{{- define "usher.test.clientCertificate" -}}
{{- $s := .Values.sidecar -}}
{{- if and (include "usher.sidecarService" .) (include "usher.test.owner" .) (include "usher.certificateSecret" (list . "check" $s.tls)) -}}
{{- .Values.test.clientCertificate -}}
{{- end -}}
{{- end }}

{{/* Whether the sidecar has the owner whose first tool `helm test` calls. */}}
{{- define "usher.test.owner" -}}
{{- $found := "" -}}
{{- range .Values.sidecar.config.owners -}}
{{- if or (not $.Values.test.owner) (eq $.Values.test.owner .owner) -}}
{{- $found = "true" -}}
{{- end -}}
{{- end -}}
{{- $found -}}
{{- end }}
