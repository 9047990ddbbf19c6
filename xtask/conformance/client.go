package main

import (
	"fmt"
	"strings"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

var queues = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "queues"}

// clientSteps are what a Go program does that knows Volcano's types, and nothing of what Basalt adds to them.
var clientSteps = []step{
	{"a client lists queues, jobs and pod groups", lists},
	{"a client makes a queue", makesQueue},
	{"a patch keeps what the client does not know", patchKeeps},
	{"a full update keeps the state and drops the guarantee's policy and percentage with a warning and an event", putDrops},
	{"a client makes a job, which runs", makesJob},
	{"a client scales a job by a full update", scalesJob},
	{"a client deletes what it made", deletes},
}

func lists(w *world) error {
	list, err := w.volcano.SchedulingV1beta1().Queues().List(w, meta.ListOptions{})
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, queue := range list.Items {
		names[queue.Name] = true
	}
	if !names["root"] || !names["default"] {
		return fmt.Errorf("root or default is missing in %v", names)
	}
	if _, err := w.volcano.BatchV1alpha1().Jobs("default").List(w, meta.ListOptions{}); err != nil {
		return err
	}
	_, err = w.volcano.SchedulingV1beta1().PodGroups("default").List(w, meta.ListOptions{})
	return err
}

func makesQueue(w *world) error {
	queue := &scheduling.Queue{ObjectMeta: meta.ObjectMeta{Name: "go"}, Spec: scheduling.QueueSpec{Weight: 3}}
	if _, err := w.volcano.SchedulingV1beta1().Queues().Create(w, queue, meta.CreateOptions{}); err != nil {
		return err
	}
	return eventually(func() error {
		queue, err := w.volcano.SchedulingV1beta1().Queues().Get(w, "go", meta.GetOptions{})
		if err == nil && queue.Status.State != scheduling.QueueStateOpen {
			err = fmt.Errorf("the state is %q", queue.Status.State)
		}
		return err
	})
}

// read gives the queue as it is stored.
func (w *world) read() (map[string]any, error) {
	queue, err := w.dynamic.Resource(queues).Get(w, "go", meta.GetOptions{})
	if err != nil {
		return nil, err
	}
	spec, _, err := unstructured.NestedMap(queue.Object, "spec")
	return spec, err
}

func patchKeeps(w *world) error {
	ours := `{"spec":{"state":"Closed","guarantee":{"policy":"Best-Effort","percentage":{"dimensions":["cpu"],"value":0.1}}}}`
	_, err := w.dynamic.Resource(queues).Patch(w, "go", types.MergePatchType, []byte(ours), meta.PatchOptions{})
	if err != nil {
		return err
	}
	theirs := []byte(`{"spec":{"weight":4}}`)
	queue, err := w.volcano.SchedulingV1beta1().Queues().Patch(w, "go", types.MergePatchType, theirs, meta.PatchOptions{})
	if err != nil {
		return err
	}
	spec, err := w.read()
	if err != nil {
		return err
	}
	guarantee, _ := spec["guarantee"].(map[string]any)
	if queue.Spec.Weight != 4 || spec["state"] != "Closed" || guarantee["policy"] != "Best-Effort" || guarantee["percentage"] == nil {
		return fmt.Errorf("something is lost: %v", spec)
	}
	return nil
}

func putDrops(w *world) error {
	queue, err := w.volcano.SchedulingV1beta1().Queues().Get(w, "go", meta.GetOptions{})
	if err != nil {
		return err
	}
	w.warnings.take()
	queue.Spec.Weight = 5
	if _, err = w.volcano.SchedulingV1beta1().Queues().Update(w, queue, meta.UpdateOptions{}); err != nil {
		return err
	}
	warned := w.warnings.take()
	spec, err := w.read()
	if err != nil {
		return err
	}
	guarantee, _ := spec["guarantee"].(map[string]any)
	if spec["state"] != "Closed" || guarantee["policy"] != nil || guarantee["percentage"] != nil {
		return fmt.Errorf("the state is to stay and the guarantee to go: %v", spec)
	}
	if !strings.Contains(warned, "guarantee") {
		return fmt.Errorf("no warning of that: %q", warned)
	}
	return eventually(func() error {
		events, err := w.kubernetes.CoreV1().Events("").List(w, meta.ListOptions{FieldSelector: "involvedObject.kind=Queue,involvedObject.name=go"})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if strings.Contains(event.Message, "guarantee") {
				return nil
			}
		}
		return fmt.Errorf("no event tells of it, among %d", len(events.Items))
	})
}

func newJob(name string, pods int32) *batch.Job {
	cpu := core.ResourceList{core.ResourceCPU: resource.MustParse("100m")}
	container := core.Container{Name: "main", Image: "busybox", Resources: core.ResourceRequirements{Requests: cpu}}
	template := core.PodTemplateSpec{Spec: core.PodSpec{RestartPolicy: core.RestartPolicyNever, Containers: []core.Container{container}}}
	return &batch.Job{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Spec: batch.JobSpec{
			SchedulerName: "volcano", MinAvailable: pods, Queue: "default",
			Tasks: []batch.TaskSpec{{Name: "worker", Replicas: pods, Template: template}},
		},
	}
}

func (w *world) phase(name string, wanted batch.JobPhase, pods int32) error {
	return eventually(func() error {
		job, err := w.volcano.BatchV1alpha1().Jobs("default").Get(w, name, meta.GetOptions{})
		if err == nil && (job.Status.State.Phase != wanted || job.Status.Running != pods) {
			err = fmt.Errorf("it is %s with %d running", job.Status.State.Phase, job.Status.Running)
		}
		return err
	})
}

func makesJob(w *world) error {
	if _, err := w.volcano.BatchV1alpha1().Jobs("default").Create(w, newJob("go", 3), meta.CreateOptions{}); err != nil {
		return err
	}
	return w.phase("go", batch.Running, 3)
}

func scalesJob(w *world) error {
	err := eventually(func() error {
		job, err := w.volcano.BatchV1alpha1().Jobs("default").Get(w, "go", meta.GetOptions{})
		if err != nil {
			return err
		}
		job.Spec.Tasks[0].Replicas = 5
		_, err = w.volcano.BatchV1alpha1().Jobs("default").Update(w, job, meta.UpdateOptions{})
		return err // somebody else may have written the status meanwhile
	})
	if err != nil {
		return err
	}
	return w.phase("go", batch.Running, 5)
}

func deletes(w *world) error {
	if err := w.volcano.BatchV1alpha1().Jobs("default").Delete(w, "go", meta.DeleteOptions{}); err != nil {
		return err
	}
	err := eventually(func() error {
		return w.volcano.SchedulingV1beta1().Queues().Delete(w, "go", meta.DeleteOptions{})
	})
	if err != nil {
		return err
	}
	return eventually(func() error {
		if _, err := w.volcano.SchedulingV1beta1().Queues().Get(w, "go", meta.GetOptions{}); err == nil {
			return fmt.Errorf("the queue is still there")
		}
		return nil
	})
}
