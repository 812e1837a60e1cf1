// The kinds of the Prometheus operator, which tests check the chart's monitors against. Nothing of it is built.
module headrace.invalid/tools/prometheus-operator

go 1.25.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
