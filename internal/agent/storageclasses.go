package agent

import (
	"context"
	"sync"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// classesFor is how long storage classes are believed to be as they were read:
// they change rarely, and are read only while a claim is not bound.
const classesFor = 30 * time.Second

// storageClasses knows which claims are bound only once a pod uses them.
type storageClasses struct {
	kube  kubernetes.Interface
	clock clock.PassiveClock

	mu     sync.Mutex
	readAt time.Time
	waits  map[string]bool
}

func newStorageClasses(kube kubernetes.Interface, clock clock.PassiveClock) *storageClasses {
	return &storageClasses{kube: kube, clock: clock}
}

// about adds to the sight of a claim that is not bound whether it may be.
func (c *storageClasses) about(ref objectKey, sight Sight) Sight {
	if ref.Group != "" || ref.Kind != "PersistentVolumeClaim" || sight.Full == nil {
		return sight
	}
	if phase, _, _ := unstructured.NestedString(sight.Full.Object, "status", "phase"); phase == "Bound" {
		return sight
	}
	class, _, _ := unstructured.NestedString(sight.Full.Object, "spec", "storageClassName")
	sight.WaitsForConsumer = c.wait(class)
	return sight
}

func (c *storageClasses) wait(class string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits == nil || c.clock.Since(c.readAt) >= classesFor {
		c.read()
	}
	return c.waits[class]
}

// read takes over the classes; the caller holds the lock.
func (c *storageClasses) read() {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	c.readAt = c.clock.Now()
	list, err := c.kube.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		klog.V(2).InfoS("Cannot read storage classes", "err", err)
		return
	}
	c.waits = map[string]bool{}
	for _, class := range list.Items {
		mode := class.VolumeBindingMode
		c.waits[class.Name] = mode != nil && *mode == storagev1.VolumeBindingWaitForFirstConsumer
	}
}
