{{/* Who may ask the sidecar, and what its three modes exclude. */}}
{{- define "usher.refusals.sidecar" -}}
{{- $s := .Values.sidecar }}
{{- if $s.enabled }}
{{- $certificate := include "usher.certificateSecret" (list . "check" $s.tls) }}
{{- if and $certificate $s.trustedNetwork }}
sidecar.tls is set, and sidecar.trustedNetwork is true: set sidecar.trustedNetwork to false, because with sidecar.tls nobody asks without a certificate, whatever the network lets in.
{{- end }}
{{- if include "usher.sidecarService" . }}
{{- /* Anybody who reaches the check port can spend grants. */}}
{{- if not (or $certificate $s.trustedNetwork) }}
sidecar.tls is not set, and sidecar.trustedNetwork is false, so that anybody who reaches the check port could spend grants: set sidecar.tls, or sidecar.trustedNetwork to true if the network keeps everybody but the gateway out.
{{- end }}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.gateways) }}
networkPolicy.gateways is empty, and sidecar.enabled and networkPolicy.enabled are true, so that no gateway could ask: name the pods of your gateway in networkPolicy.gateways.
{{- end }}
{{- end }}
{{- if and (eq $s.mode "daemonset") $s.autoscaling.enabled }}
sidecar.mode is daemonset, which has as many pods as there are nodes, and sidecar.autoscaling.enabled is true: set the one to service or the other to false.
{{- end }}
{{- if eq $s.mode "container" }}
{{- if $s.autoscaling.enabled }}
sidecar.mode is container, whose pods are those of the gateway, and sidecar.autoscaling.enabled is true: set the one to service or the other to false.
{{- end }}
{{- range list "initContainers" "extraContainers" }}
{{- if index $s . }}
sidecar.mode is container, whose patch adds the sidecar alone to the pod of the gateway, and sidecar.{{ . }} is set: leave it empty, and add these containers to the gateway yourself.
{{- end }}
{{- end }}
{{- range $s.extraEnv }}
{{- if and (hasKey . "value") (regexMatch "SECRET|PASSWORD|TOKEN|CREDENTIAL|HEADERS|KEY$" (toString .name)) }}
sidecar.mode is container, whose patch is a ConfigMap, and sidecar.extraEnv has a value for {{ .name }}, which may be secret: write valueFrom with a secretKeyRef in its place.
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- range list "istio" "envoyGateway" }}
{{- if and (index $.Values .).enabled (not (include "usher.sidecarService" $)) }}
{{ . }}.enabled is true, and there is no sidecar with pods of its own to ask: set sidecar.enabled to true and sidecar.mode to service or daemonset, or {{ . }}.enabled to false.
{{- end }}
{{- end }}
{{- if and .Values.envoyGateway.enabled (not .Values.envoyGateway.routes) }}
envoyGateway.routes is empty, and envoyGateway.enabled is true: name the HTTPRoutes that are asked about, each with its owner.
{{- end }}
{{- end }}
