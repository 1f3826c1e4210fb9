{{/* What agents, resource servers, organizations, tallies and readers of ledgers ask of the authority. Neither the owner API, nor metrics, nor health. */}}
{{- define "usher.publicPaths" -}}
exact:
  - /.well-known/agents-configuration
  - /.well-known/uma2-configuration
  - /.well-known/oauth-authorization-server
  - /.well-known/uma4agents-configuration
  - /jwks
  - /terms
  - /authorize
  - /token
  - /perm
  - /introspect
  - /consume
  - /audit/access
  - /leases
  - /rs/register
  - /org/notice
  - /joint/quote
  - /joint/verdict
  - /openapi.json
prefix:
  - /terms/
  - /leases/
  - /ledger/
{{- end }}

{{/* The owner API, the acts of an organization's administrators on its members, and the page with its files. Only a host of its own has the
keys for the page: that of the issuer publishes them itself. */}}
{{- define "usher.ownerPaths" -}}
{{- $a := .Values.authority -}}
exact:
  - /
  - /console.js
  - /console.css
  - /console.svg
  - /console.json
  - /worker.js
  {{- if ne (include "usher.hostOf" (default $a.issuer $a.ownerUrl)) (include "usher.hostOf" $a.issuer) }}
  - /jwks
  {{- end }}
prefix:
  - /owner
  - /org/admin
{{- end }}

{{- define "usher.documentPaths" -}}
exact:
  - /jwks
prefix:
  - /.well-known/oauth-protected-resource
  - /owner-resources
{{- end }}

{{- define "usher.hostOf" -}}
{{- regexReplaceAll ":[0-9]+$" (urlParse .).host "" }}
{{- end }}

{{/* The host of the documents: of the public URL, which the chart only knows where it writes the file. */}}
{{- define "usher.documentsHost" -}}
{{- with .Values.sidecar.config.public_url }}
{{- include "usher.hostOf" . }}
{{- else }}
{{- fail "expose.documents and envoyGateway need sidecar.config.public_url: with sidecar.existingConfig write these routes yourself (docs/kubernetes.md)." }}
{{- end }}
{{- end }}

{{/* HTTPRoute and Ingress of one Service. Call with (dict "root" $ "component" "name" "route" "host" "paths" "service" "port"). */}}
{{- define "usher.route" -}}
{{- $ := .root -}}
{{- $of := . -}}
{{- if .route.gatewayApi.enabled }}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  {{- include "usher.annotated" (list $ .component .name .route.gatewayApi.annotations) | nindent 2 }}
spec:
  parentRefs:
    {{- toYaml .route.gatewayApi.parentRefs | nindent 4 }}
  hostnames: {{ concat (list .host) (default list .route.gatewayApi.extraHostnames) | uniq | toJson }}
  rules:
    {{- include "usher.routeRules" . | nindent 4 }}
{{- end }}
{{- if .route.ingress.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  {{- include "usher.annotated" (list $ .component .name .route.ingress.annotations) | nindent 2 }}
spec:
  {{- with .route.ingress.className }}
  ingressClassName: {{ . }}
  {{- end }}
  {{- $hosts := prepend (default list .route.ingress.extraHosts) (dict "host" .host "tlsSecret" .route.ingress.tlsSecret) }}
  {{- $secrets := list }}
  {{- range $hosts }}
  {{- $secrets = append $secrets .tlsSecret }}
  {{- end }}
  {{- with compact $secrets }}
  tls:
    {{- range $secret := uniq . }}
    - hosts:
        {{- range $hosts }}
        {{- if eq (default "" .tlsSecret) $secret }}
        - {{ .host | quote }}
        {{- end }}
        {{- end }}
      secretName: {{ $secret }}
    {{- end }}
  {{- end }}
  rules:
    {{- range $hosts }}
    - host: {{ .host | quote }}
      http:
        paths:
          {{- include "usher.ingressPaths" $of | nindent 10 }}
    {{- end }}
{{- end }}
{{- end }}

{{/* Where all are prefixes, one that ends in a slash is the one without it. */}}
{{- define "usher.ingressPaths" -}}
{{- $of := . -}}
{{- $exact := ne (toString .route.ingress.exactPaths) "false" -}}
{{- $seen := dict -}}
{{- range $type, $paths := .paths }}
{{- range $paths }}
{{- $path := $exact | ternary . (default "/" (trimSuffix "/" .)) }}
{{- if not (hasKey $seen $path) }}
{{- $_ := set $seen $path true }}
- path: {{ $path }}
  pathType: {{ $exact | ternary (title $type) "Prefix" }}
  backend:
    service:
      name: {{ $of.service }}
      port:
        number: {{ $of.port }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* At most eight matches a rule, which is what the first versions of the Gateway API took. */}}
{{- define "usher.routeRules" -}}
{{- $of := . -}}
{{- $matches := list -}}
{{- range .paths.exact }}
{{- $matches = append $matches (dict "path" (dict "type" "Exact" "value" .)) }}
{{- end }}
{{- range .paths.prefix }}
{{- $matches = append $matches (dict "path" (dict "type" "PathPrefix" "value" (trimSuffix "/" .))) }}
{{- end }}
{{- range chunk 8 $matches }}
- matches:
    {{- toYaml . | nindent 4 }}
  backendRefs:
    - name: {{ $of.service }}
      {{- with $of.namespace }}
      namespace: {{ . }}
      {{- end }}
      port: {{ $of.port }}
{{- end }}
{{- end }}
