// Programs that were made for Volcano, against a cluster that Basalt serves: a client of Volcano's published API module,
// and Volcano's own vcctl: conformance KUBECONFIG VCCTL
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	volcano "volcano.sh/apis/pkg/client/clientset/versioned"
)

const patience = 30 * time.Second

// world is what the steps work on.
type world struct {
	context.Context
	volcano    *volcano.Clientset
	kubernetes *kubernetes.Clientset
	dynamic    *dynamic.DynamicClient
	warnings   *warnings
	kubeconfig string
	vcctl      string
}

// warnings collects what the server warns of.
type warnings struct{ said []string }

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { w.said = append(w.said, text) }

func (w *warnings) take() string {
	said := strings.Join(w.said, "; ")
	w.said = nil
	return said
}

type step struct {
	name string
	run  func(*world) error
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: conformance KUBECONFIG VCCTL")
		os.Exit(2)
	}
	world, err := connect(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	failed := 0
	for _, step := range append(clientSteps, vcctlSteps...) {
		if err := step.run(world); err != nil {
			failed++
			fmt.Printf("FAIL  %s: %v\n", step.name, err)
			continue
		}
		fmt.Printf("ok    %s\n", step.name)
	}
	fmt.Printf("%d steps, %d failed\n", len(clientSteps)+len(vcctlSteps), failed)
	if failed > 0 {
		os.Exit(1)
	}
}

func connect(kubeconfig, vcctl string) (*world, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	warnings := &warnings{}
	config.WarningHandler = warnings
	config.QPS = -1
	made := &world{Context: context.Background(), warnings: warnings, kubeconfig: kubeconfig, vcctl: vcctl}
	return made, made.clients(config)
}

func (w *world) clients(config *rest.Config) (err error) {
	if w.volcano, err = volcano.NewForConfig(config); err != nil {
		return err
	}
	if w.kubernetes, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	w.dynamic, err = dynamic.NewForConfig(config)
	return err
}

// eventually asks until there is nothing to complain of.
func eventually(probe func() error) error {
	var last error
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(50 * time.Millisecond) {
		if last = probe(); last == nil {
			return nil
		}
	}
	return fmt.Errorf("after %s: %w", patience, last)
}
