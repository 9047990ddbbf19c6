package main

import (
	"fmt"
	"os/exec"
	"strings"
)

// vcctlSteps are lines of Volcano's own vcctl, in order: acts, of which some say nothing, and looks, each with what the
// answer must come to contain.
var vcctlSteps = []step{
	act("queue create --name vc --weight 2"),
	look("queue list", "vc"),
	look("queue get --name vc", "2"),
	act("queue operate --name vc --action update --weight 7"),
	look("queue get --name vc", "7"),
	act("queue operate --name vc --action close"),
	look("queue get --name vc", "Closed"),
	act("queue operate --name vc --action open"),
	look("queue get --name vc", "Open"),
	act("job run --name vc --replicas 3 --min 3 --requests cpu=100m,memory=10Mi"),
	look("job list", "vc"),
	look("job view --name vc", "Running"),
	look("pod list --job vc", "vc-"),
	act("job suspend --name vc"),
	look("job view --name vc", "Aborted"),
	act("job resume --name vc"),
	look("job view --name vc", "Running"),
	act("job delete --name vc"),
	act("queue operate --name vc --action close"),
	look("queue get --name vc", "Closed"),
	act("queue delete --name vc"),
}

// act does something once, and it must succeed.
func act(words string) step {
	return step{"vcctl " + words, func(w *world) error {
		_, err := w.run(words)
		return err
	}}
}

// look asks until the answer has something in it.
func look(words, said string) step {
	return step{"vcctl " + words + " says " + said, func(w *world) error {
		return eventually(func() error {
			output, err := w.run(words)
			if err == nil && !strings.Contains(output, said) {
				err = fmt.Errorf("%q is not in %q", said, output)
			}
			return err
		})
	}}
}

func (w *world) run(words string) (string, error) {
	arguments := append(strings.Fields(words), "--kubeconfig", w.kubeconfig)
	output, err := exec.Command(w.vcctl, arguments...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, output)
	}
	return string(output), err
}
