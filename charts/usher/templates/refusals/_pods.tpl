{{/* How many pods of a role there are, and how many must stay. */}}
{{- define "usher.refusals.pods" -}}
{{- range $role := list "authority" "sidecar" "tally" "witness" "organization" }}
{{- $of := index $.Values $role }}
{{- if and $of.enabled (or (ne $role "sidecar") (eq $of.mode "service")) }}
{{- $scaling := $of.autoscaling }}
{{- if $scaling.enabled }}
{{- if not (or $scaling.targetCpuPercent $scaling.targetMemoryPercent) }}
{{ $role }}.autoscaling.targetCpuPercent and {{ $role }}.autoscaling.targetMemoryPercent are both 0, so that nothing is followed: set one of them, or {{ $role }}.autoscaling.enabled to false.
{{- end }}
{{- if gt (int $scaling.minReplicas) (int $scaling.maxReplicas) }}
{{ $role }}.autoscaling.minReplicas ({{ $scaling.minReplicas }}) is more than {{ $role }}.autoscaling.maxReplicas ({{ $scaling.maxReplicas }}): lower the one or raise the other.
{{- end }}
{{- end }}
{{- $budget := $of.podDisruptionBudget }}
{{- if $budget.enabled }}
{{- if regexMatch "^0+%?$" (toString $budget.maxUnavailable) }}
{{ $role }}.podDisruptionBudget.maxUnavailable is {{ $budget.maxUnavailable }}, and {{ $role }}.podDisruptionBudget.enabled is true, so that no node with such a pod can be drained: set the one to 1 or more, or the other to false.
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Variables that would stand in a pod twice, of which Kubernetes takes the last. */}}
{{- define "usher.refusals.variables" -}}
{{- range $role := list "authority" "tally" "witness" "organization" "sidecar" }}
{{- $of := index $.Values $role }}
{{- if $of.enabled }}
{{- $all := list }}
{{- if eq $role "sidecar" }}
{{- $all = (include "usher.sidecar.container" $ | fromYaml).env }}
{{- else }}
{{- $all = include (printf "usher.%s.env" $role) $ | fromYamlArray }}
{{- end }}
{{- $added := list }}
{{- range $of.extraEnv }}
{{- $added = append $added .name }}
{{- end }}
{{- $before := dict }}
{{- range $all }}
{{- $name := toString .name }}
{{- if and (hasKey $before $name) (has $name $added) }}
{{ $role }}.extraEnv sets {{ $name }}, which is set already: leave it out of {{ $role }}.extraEnv, and change the value that sets it.
{{- else if hasKey $before $name }}
{{ $role }}.settings.{{ $name }} is set, and {{ $role }}.oidc.existingSecret sets that variable, too: leave one of them out.
{{- end }}
{{- $_ := set $before $name true }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
