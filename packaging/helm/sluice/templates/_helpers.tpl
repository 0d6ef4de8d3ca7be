{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{- define "sluice.labels" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "sluice.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- define "sluice.pod" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
automountServiceAccountToken: false
{{- end }}

{{/* Controller and web process need no privilege. */}}
{{- define "sluice.unprivileged" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "sluice.user" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* A service touches this file while its main loop turns. */}}
{{- define "sluice.alive" -}}
livenessProbe:
  exec: {command: [sh, -c, "test -n \"$(find /run/sluice/alive -newermt '-60 seconds')\""]}
  initialDelaySeconds: 60
  periodSeconds: 20
  timeoutSeconds: 10
{{- end }}

{{- define "sluice.storeEnv" -}}
{{- $prefix := .prefix }}
- {name: {{ $prefix }}_STORE, value: {{ .root.Values.store.url | quote }}}
- {name: {{ $prefix }}_STORE_PASSWORD_FILE, value: /etc/sluice/store/password}
{{- end }}

{{- define "sluice.storeVolume" -}}
- name: store-password
  secret:
    secretName: {{ .Values.store.passwordSecret.name }}
    items: [{key: {{ .Values.store.passwordSecret.key }}, path: password}]
{{- end }}

{{/* What both agents share: the node's network, and what the kernel allows only to root with these capabilities. */}}
{{- define "sluice.agentPod" -}}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
priorityClassName: system-node-critical
securityContext:
  seccompProfile: {type: RuntimeDefault}
{{- end }}
