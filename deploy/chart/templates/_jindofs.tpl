{{/* What the roles of "the JindoFS way" share. */}}

{{/* The file that master and worker take their origins from. */}}
{{- define "headrace.jindofs.file" -}}
/etc/headrace/origins/{{ ternary "jindofs.yaml" "jindofs.cfg" (not (empty .Values.jindofs.namespaces)) }}
{{- end -}}

{{/* The master's address. By its whole name, so that no search list of the pod's namespace has to hold it. */}}
{{- define "headrace.jindofs.master" -}}
http://headrace-jindofs-master.{{ .Release.Namespace }}.svc:8700
{{- end -}}

{{/* Changes with what the processes read at their start only. */}}
{{- define "headrace.jindofs.digest" -}}
{{ list .Values.jindofs.namespaces .Values.jindofs.properties .Values.jindofs.existingPropertiesSecret .Values.jindofs.existingTokenSecret | toJson | sha256sum }}
{{- end -}}

{{- define "headrace.jindofs.environment" -}}
- {name: HEADRACE_TOKEN_FILE, value: /etc/headrace/token/token}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
{{- end -}}

{{- define "headrace.jindofs.tokenVolume" -}}
- name: token
  secret:
    secretName: {{ .Values.jindofs.existingTokenSecret | default "headrace-jindofs-token" }}
    defaultMode: 0400
{{- end -}}

{{/* Origins and their credentials: for master and workers alone. */}}
{{- define "headrace.jindofs.originVolumes" -}}
{{- $given := .Values.jindofs -}}
- name: origins
{{- if $given.namespaces }}
  configMap: {name: headrace-jindofs}
{{- else }}
  secret:
    secretName: {{ $given.existingPropertiesSecret | default "headrace-jindofs-properties" }}
    defaultMode: 0400
{{- end }}
{{- range $name, $namespace := $given.namespaces }}
{{- if or $namespace.existingSecret $namespace.credentials }}
- name: {{ printf "secret-%s" $name | lower | replace "_" "-" }}
  secret:
    secretName: {{ $namespace.existingSecret | default (printf "headrace-jindofs-%s" ($name | lower | replace "_" "-")) }}
    defaultMode: 0400
{{- end }}
{{- end }}
{{- end -}}

{{- define "headrace.jindofs.originMounts" -}}
- {name: token, mountPath: /etc/headrace/token, readOnly: true}
- {name: origins, mountPath: /etc/headrace/origins, readOnly: true}
{{- range $name, $namespace := .Values.jindofs.namespaces }}
{{- if or $namespace.existingSecret $namespace.credentials }}
- {name: {{ printf "secret-%s" $name | lower | replace "_" "-" }}, mountPath: /etc/headrace/secrets/{{ $name }}, readOnly: true}
{{- end }}
{{- end }}
{{- end -}}

{{/* Nobody is killed for being slow: what waits for a storage system answers late, and a new process would wait, too. */}}
{{- define "headrace.jindofs.probes" -}}
readinessProbe:
  httpGet: {path: /healthz, port: {{ . }}}
  periodSeconds: 5
  timeoutSeconds: 3
startupProbe:
  httpGet: {path: /healthz, port: {{ . }}}
  periodSeconds: 1
  failureThreshold: 300
{{- end -}}
