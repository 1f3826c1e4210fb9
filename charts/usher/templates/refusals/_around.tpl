{{/* Routes from outside, and who is let in to what they lead to. */}}
{{- define "usher.refusals.routes" -}}
{{- range $name, $route := pick .Values.expose "authority" "ownerApi" "documents" }}
{{- if and $route.gatewayApi.enabled (not $route.gatewayApi.parentRefs) }}
expose.{{ $name }}.gatewayApi.parentRefs is empty, and expose.{{ $name }}.gatewayApi.enabled is true: name the Gateway that the route hangs on.
{{- end }}
{{- end }}
{{- if .Values.networkPolicy.enabled }}
{{- range $by, $route := pick .Values.expose.ownerApi "gatewayApi" "ingress" }}
{{- if and $route.enabled (not $.Values.networkPolicy.owners) }}
networkPolicy.owners is empty, and expose.ownerApi.{{ $by }}.enabled is true, so that the route leads nowhere: name the pods of your ingress for owners in networkPolicy.owners.
{{- end }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.networkPolicy.monitoring) }}
networkPolicy.monitoring is empty, and metrics.serviceMonitor.enabled is true, so that nobody could read the metrics: name the pods of Prometheus in networkPolicy.monitoring.
{{- end }}
{{- end }}
{{- end }}

{{/* Peers of NetworkPolicies, which the API server would refuse one by one. */}}
{{- define "usher.refusals.networks" -}}
{{- $n := .Values.networkPolicy }}
{{- range $path, $peers := dict "gateways" $n.gateways "agents" $n.agents "owners" $n.owners "administrators" $n.administrators "monitoring" $n.monitoring "egress.databases" $n.egress.databases }}
{{- range $place, $peer := $peers }}
{{- $at := printf "networkPolicy.%s[%d]" $path $place }}
{{- if not $peer }}
{{ $at }} is empty: write a podSelector, a namespaceSelector or an ipBlock there, or leave it out.
{{- end }}
{{- with $peer.ipBlock }}
{{- if gt (len $peer) 1 }}
{{ $at }} has an ipBlock and a selector: make two peers of them, because one pod is found by its address or by its labels.
{{- end }}
{{- range prepend (default list .except) .cidr }}
{{- if not (include "usher.isNetwork" .) }}
{{ $at }}.ipBlock: {{ . }} is no range of addresses: write one such as 10.20.0.0/16 or fd00:20::/32.
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Whether a text is a range of IPv4 or IPv6 addresses. */}}
{{- define "usher.isNetwork" -}}
{{- $byte := "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])" -}}
{{- $groups := "[0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4})*" -}}
{{- $count := len (regexFindAll "[0-9a-fA-F]+" (splitList "/" . | first) -1) -}}
{{- if regexMatch (printf "^(%s\\.){3}%s/(3[0-2]|[12]?[0-9])$" $byte $byte) . -}}
true
{{- else if regexMatch (printf "^(%s|(%s)?::(%s)?)/(12[0-8]|1[01][0-9]|[1-9]?[0-9])$" $groups $groups $groups) . -}}
{{- /* `::` stands for one group of zeros or more. */}}
{{- if contains "::" . | ternary (lt $count 8) (eq $count 8) }}true{{ end -}}
{{- end -}}
{{- end }}

{{- define "usher.refusals.image" -}}
{{- $repository := .Values.image.repository }}
{{- if not $repository }}
image.repository is empty: set it to the address of the image, such as registry.example.com/usher.
{{- else if contains "@" $repository }}
image.repository ends in a digest, which image.digest or image.tag would be written behind: move it to image.digest.
{{- else if contains ":" (splitList "/" $repository | last) }}
image.repository ends in a tag, which image.digest or image.tag would be written behind: move it to image.tag.
{{- end }}
{{- end }}
