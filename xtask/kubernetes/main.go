// etcd, kube-apiserver and kube-controller-manager in one binary, built from their published modules: the first word of
// the command line says which of them it is. `kubernetes up DIR` runs all three on loopback, with TLS and RBAC.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

const usage = "usage: kubernetes up DIR | etcd FLAGS | kube-apiserver FLAGS | kube-controller-manager FLAGS"

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	os.Args = os.Args[1:]
	switch os.Args[0] {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		run(apiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		run(manager.NewControllerManagerCommand())
	case "up":
		if len(os.Args) != 2 {
			fmt.Fprintln(os.Stderr, usage)
			os.Exit(2)
		}
		if err := up(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
	default:
		fmt.Fprintf(os.Stderr, "%q is not a part of the engine\n%s\n", os.Args[0], usage)
		os.Exit(2)
	}
}

func run(command *cobra.Command) {
	os.Exit(cli.Run(command))
}
