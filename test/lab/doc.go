// Package lab runs real Kubernetes control planes and the real Open Cluster
// Management (OCM) hub and agents as ordinary processes of this machine. It
// needs no container engine and no root rights.
//
// Every binary is built from Go modules (see the nested modules under bin) and
// kept in a cache. A cluster is etcd, kube-apiserver and
// kube-controller-manager; a managed cluster also has kube-scheduler and kwok,
// which plays nodes and pods, so that a Deployment becomes ready, stalls or
// fails for the reasons the real thing would give (see MarkerBroken).
//
// There are two ways in. StartControlPlane gives one API server within seconds,
// for tests of controllers. Start gives a hub with joined managed clusters:
//
//	l, err := lab.Start(ctx, lab.Options{Dir: dir, Clusters: lab.DefaultClusters(3)})
//	if err != nil { ... }
//	defer l.Stop()
//
// Processes normally die with the process that started them, whatever way it
// ends. With Options.Detached they stay, and Attach finds them again from the
// state file in the lab's folder; that is what the command in cmd/lab does.
//
// Everything here trusts its user: etcd speaks plain text on the loopback
// interface and the administrator's key lies in a file. It is for tests only.
package lab
