package workbuilder

import "k8s.io/apimachinery/pkg/runtime/schema"

// The work agent applies the manifests of a work in their order, and retries
// what failed with growing delay. An object that comes before what it needs
// costs a retry, so the order below is a matter of seconds, not of success.
var ranks = rankTable(
	[]schema.GroupKind{namespaceKind},
	[]schema.GroupKind{crdKind},
	[]schema.GroupKind{
		{Group: "scheduling.k8s.io", Kind: "PriorityClass"},
		{Group: "node.k8s.io", Kind: "RuntimeClass"},
		{Group: "storage.k8s.io", Kind: "StorageClass"},
		{Group: "storage.k8s.io", Kind: "CSIDriver"},
		{Group: "networking.k8s.io", Kind: "IngressClass"},
	},
	[]schema.GroupKind{{Kind: "ResourceQuota"}, {Kind: "LimitRange"}},
	[]schema.GroupKind{{Kind: "ServiceAccount"}},
	[]schema.GroupKind{{Group: rbacGroup, Kind: "ClusterRole"}, {Group: rbacGroup, Kind: "Role"}},
	[]schema.GroupKind{{Group: rbacGroup, Kind: "ClusterRoleBinding"}, {Group: rbacGroup, Kind: "RoleBinding"}},
	[]schema.GroupKind{{Kind: "ConfigMap"}, {Kind: "Secret"}},
	[]schema.GroupKind{volumeKind},
	[]schema.GroupKind{claimKind},
	[]schema.GroupKind{{Kind: "Service"}, {Group: "networking.k8s.io", Kind: "NetworkPolicy"}},
	[]schema.GroupKind{
		{Kind: "Pod"},
		{Kind: "ReplicationController"},
		{Group: "apps", Kind: "DaemonSet"},
		{Group: "apps", Kind: "Deployment"},
		{Group: "apps", Kind: "ReplicaSet"},
		{Group: "apps", Kind: "StatefulSet"},
		{Group: "batch", Kind: "CronJob"},
		jobKind,
	},
)

// lateRanks come after everything else: a webhook or an aggregated API that is
// registered before its pods run would refuse the objects that follow.
var lateRanks = map[schema.GroupKind]bool{
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:     true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}:   true,
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:                             true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicyBinding"}: true,
}

func rankTable(levels ...[]schema.GroupKind) map[schema.GroupKind]int {
	table := map[schema.GroupKind]int{}
	for rank, kinds := range levels {
		for _, kind := range kinds {
			table[kind] = rank
		}
	}
	return table
}

func rankOf(group, kind string) int {
	const rest, late = 100, 200
	key := schema.GroupKind{Group: group, Kind: kind}
	if lateRanks[key] {
		return late
	}
	if rank, ok := ranks[key]; ok {
		return rank
	}
	return rest
}
