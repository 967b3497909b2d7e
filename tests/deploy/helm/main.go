// SPDX-License-Identifier: Apache-2.0

// Renders a Helm chart as `helm install` does, and decodes what comes out into the types of Kubernetes, strictly: a field that the API does not know, or knows with
// another type, is an error.
//
//	helm-check CHART [VALUES-FILE]
//
// Prints the objects as JSON, as their types have them, so that a test judges what the API server would get. It also says for each container which rules of the
// Pod Security level "restricted" it breaks when it is alone in a pod. The exit status is 1 if anything is wrong, and standard error says what.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"sort"
	"strings"

	securityv1 "github.com/openshift/api/security/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/releaseutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// The version of the types in go.mod. Helm asks the cluster, or has it from the flags of its own build.
var kubernetes = chartutil.KubeVersion{Version: "v1.35.0", Major: "1", Minor: "35"}

type result struct {
	Objects []runtime.Object `json:"objects"`
	Notes   string           `json:"notes"`
	// Container: the rules that it breaks.
	PodSecurity map[string][]string `json:"podSecurity"`
}

// What `helm lint` finds, without its hints.
func lintChart(directory string, values map[string]any) error {
	var faults []error
	for _, message := range lint.AllWithKubeVersion(directory, values, "profiling", &kubernetes).Messages {
		if message.Severity > support.InfoSev {
			faults = append(faults, fmt.Errorf("lint: %w", message.Err))
		}
	}
	return errors.Join(faults...)
}

// The files that the templates make, by their paths.
func render(directory string, values map[string]any) (map[string]string, error) {
	chart, err := loader.Load(directory)
	if err != nil {
		return nil, err
	}
	if !chartutil.IsCompatibleRange(chart.Metadata.KubeVersion, kubernetes.Version) {
		return nil, fmt.Errorf("the chart is not for Kubernetes %s", kubernetes.Version)
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = kubernetes
	// This also checks the values by values.schema.json.
	all, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{Name: "bulkhead", Namespace: "profiling", Revision: 1, IsInstall: true}, capabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// The objects of one file.
func decode(text string) ([]runtime.Object, error) {
	strict := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, serializer.SerializerOptions{Yaml: true, Strict: true})
	manifests := releaseutil.SplitManifests(text)
	names := make([]string, 0, len(manifests))
	for name := range manifests {
		names = append(names, name)
	}
	sort.Sort(releaseutil.BySplitManifestsOrder(names))
	var objects []runtime.Object
	for _, name := range names {
		object, kind, err := strict.Decode([]byte(manifests[name]), nil, nil)
		if err != nil {
			return nil, err
		}
		object.GetObjectKind().SetGroupVersionKind(*kind)
		objects = append(objects, object)
	}
	return objects, nil
}

// The rules of the level "restricted" that each container breaks.
func podSecurity(template corev1.PodTemplateSpec) (map[string][]string, error) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, err
	}
	broken := map[string][]string{}
	for _, container := range template.Spec.Containers {
		alone := corev1.PodSpec{Containers: []corev1.Container{container}}
		broken[container.Name] = []string{}
		for _, check := range evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &metav1.ObjectMeta{}, &alone) {
			if !check.Allowed {
				broken[container.Name] = append(broken[container.Name], check.ForbiddenReason)
			}
		}
	}
	return broken, nil
}

func check(directory string, values map[string]any) (*result, error) {
	if err := lintChart(directory, values); err != nil {
		return nil, err
	}
	files, err := render(directory, values)
	if err != nil {
		return nil, err
	}
	found := &result{}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if path.Base(name) == "NOTES.txt" {
			found.Notes = files[name]
			continue
		}
		if strings.TrimSpace(files[name]) == "" {
			continue
		}
		objects, err := decode(files[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		found.Objects = append(found.Objects, objects...)
	}
	for _, object := range found.Objects {
		if daemons, is := object.(*appsv1.DaemonSet); is {
			if found.PodSecurity, err = podSecurity(daemons.Spec.Template); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

func run(arguments []string) error {
	if len(arguments) < 1 || len(arguments) > 2 {
		return errors.New("usage: helm-check CHART [VALUES-FILE]")
	}
	if err := securityv1.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	values := chartutil.Values{}
	if len(arguments) == 2 {
		var err error
		if values, err = chartutil.ReadValuesFile(arguments[1]); err != nil {
			return err
		}
	}
	found, err := check(arguments[0], values)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "helm-check:", err)
		os.Exit(1)
	}
}
