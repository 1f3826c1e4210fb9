{{/* Both caps must be equal: with a lower one at the gateway the rest of a body would reach the tool unjudged. Call with (list $ .Values.istio). */}}
{{- define "usher.maxRequestBytes" -}}
{{- $of := index . 1 -}}
{{- if $of.maxRequestBytes }}{{ int64 $of.maxRequestBytes }}{{ else }}{{ int64 (dig "body_bytes_max" 1048576 (index . 0).Values.sidecar.config) }}{{ end }}
{{- end }}

{{/* Metadata of what stands beside a gateway. Call with (list $ "namespace" "name"). */}}
{{- define "usher.beside" -}}
{{- $ := index . 0 -}}
name: {{ index . 2 }}
namespace: {{ default $.Release.Namespace (index . 1) }}
{{- with $.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{ include "usher.labels" (list $ "gateway") }}
{{- end }}

{{- define "usher.checkHost" -}}
{{ include "usher.checkName" . }}.{{ .Release.Namespace }}.svc.cluster.local
{{- end }}

{{/* What the mesh configuration of Istio must hold, which no chart but its own can write. */}}
{{- define "usher.istioProvider" -}}
extensionProviders:
  - name: {{ .Values.istio.provider }}
    envoyExtAuthzGrpc:
      service: {{ include "usher.checkHost" . }}
      port: 9191
      timeout: 3s
      failOpen: false
      statusOnError: '503'
      clearRouteCache: false
      includeRequestBodyInCheck:
        maxRequestBytes: {{ include "usher.maxRequestBytes" (list . .Values.istio) }}
        allowPartialMessage: true
        packAsBytes: true
{{- end }}

{{/* The hosts that Istio asks about, each with every port, because a gateway routes without regard to the port; empty: all hosts. */}}
{{- define "usher.istioHosts" -}}
{{- with .Values.istio.hosts }}
{{- $public := include "usher.hostOf" (dig "public_url" "" $.Values.sidecar.config) | lower }}
{{- if and $public (not (has $public .)) }}
{{- fail (printf "istio.hosts lacks %s, the host of sidecar.config.public_url: calls to its tools would be let through without a check. Add it." $public) }}
{{- end }}
{{- $hosts := list }}
{{- range . }}
{{- $hosts = concat $hosts (list . (printf "%s:*" .)) }}
{{- end }}
{{- toYaml $hosts }}
{{- end }}
{{- end }}

{{/* The owners in the file of the sidecar, as {"owners": […]}: none if the chart does not write that file. */}}
{{- define "usher.sidecarOwners" -}}
{{- $owners := list -}}
{{- range dig "owners" list .Values.sidecar.config -}}
{{- $owners = append $owners .owner -}}
{{- end -}}
{{- dict "owners" (uniq $owners) | toJson -}}
{{- end }}

{{/* Those of them whom no route of Envoy Gateway names, between commas; empty if a route is for all owners. */}}
{{- define "usher.ownersWithoutRoute" -}}
{{- $unnamed := (include "usher.sidecarOwners" . | fromJson).owners -}}
{{- range .Values.envoyGateway.routes -}}
{{- if .owner -}}
{{- $unnamed = without $unnamed .owner -}}
{{- else -}}
{{- $unnamed = list -}}
{{- end -}}
{{- end -}}
{{- join ", " $unnamed -}}
{{- end }}
