{{/* Names are not made of the release's: one installation serves a cluster. */}}

{{- define "headrace.driver" -}}fuse.csi.fluid.io{{- end -}}

{{/* Labels of every object: call with (dict "root" $ "component" "operator"). */}}
{{- define "headrace.labels" -}}
{{ include "headrace.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | quote }}
{{- end -}}

{{/* Labels by which pods are selected; they never change. */}}
{{- define "headrace.selector" -}}
app.kubernetes.io/name: headrace
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* An image: call with (dict "root" $ "image" .Values.image.engine). */}}
{{- define "headrace.image" -}}
{{- $tag := .image.tag | default .root.Chart.AppVersion -}}
{{ .image.repository }}{{ hasPrefix "@" $tag | ternary "" ":" }}{{ $tag }}
{{- end -}}

{{/* Variables of OpenTelemetry. */}}
{{- define "headrace.openTelemetry" -}}
{{- range $name, $value := .Values.openTelemetry }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end -}}

{{- define "headrace.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Where a pod may run: call with the part of the values that says so. */}}
{{- define "headrace.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Replicas are on different nodes if they can: call with (dict "root" $ "component" "operator" "given" .affinity). */}}
{{- define "headrace.apart" -}}
affinity:
{{- if .given }}
{{- toYaml .given | nindent 2 }}
{{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- include "headrace.selector" . | nindent 14 }}
{{- end }}
{{- end -}}

{{/* What pods that need no rights on their node may do there: nothing. */}}
{{- define "headrace.unprivilegedPod" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "headrace.unprivilegedContainer" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}
