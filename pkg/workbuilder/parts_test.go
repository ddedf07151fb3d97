package workbuilder

import (
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const kib = 1 << 10

func bigConfigMap(name string, bytes int) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: shop}, data: {text: %s}}", name, strings.Repeat("x", bytes))
}

// maps of the given names, each of so many KiB.
func configMaps(size int, names ...string) []string {
	var manifests []string
	for _, name := range names {
		manifests = append(manifests, bigConfigMap(name, size*kib))
	}
	return manifests
}

// stage is a cluster whose works are written as the phases say.
type stage struct {
	t        testing.TB
	present  []*workv1.ManifestWork
	recorded *v1alpha1.Rendered
	limit    int
}

// phase writes one phase of a delivery and deletes what the phase Drop no longer
// has, unless the delivery begins with the phase Drop.
func (s *stage) phase(request Request, phase v1alpha1.WritePhase) WorkSet {
	s.t.Helper()
	request.Present, request.Recorded, request.limit = s.present, s.recorded, s.limit
	rendering := render(s.t, request)
	set := works(s.t, rendering, phase, s.present...)
	s.recorded = &rendering.Rendered
	merged := map[string]*workv1.ManifestWork{}
	if phase == v1alpha1.PhaseAdd {
		for _, work := range s.present {
			merged[work.Name] = work
		}
	}
	for _, work := range set.Works {
		merged[work.Name] = work
	}
	s.present = nil
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		s.present = append(s.present, merged[name])
	}
	checkSizes(s.t, s.present, request.workLimit())
	return set
}

// deliver writes both phases.
func (s *stage) deliver(request Request) {
	s.t.Helper()
	s.phase(request, v1alpha1.PhaseAdd)
	s.phase(request, v1alpha1.PhaseDrop)
}

func checkSizes(t testing.TB, works []*workv1.ManifestWork, limit int) {
	t.Helper()
	for _, work := range works {
		size := 0
		for _, manifest := range work.Spec.Workload.Manifests {
			size += manifest.Size()
		}
		if size > limit || size == 0 {
			t.Errorf("work %s has %d bytes of manifests", work.Name, size)
		}
	}
}

// laid tells what each work carries, with placeholders in brackets.
func laid(t testing.TB, works []*workv1.ManifestWork) []string {
	t.Helper()
	var out []string
	for _, work := range works {
		objects, err := Objects([]*workv1.ManifestWork{work})
		if err != nil {
			t.Fatal(err)
		}
		line := work.Name[len(work.Name)-2:] + ":"
		for _, object := range objects {
			if isPlaceholder(object) {
				line += " [" + object.GetName() + "]"
			} else {
				line += " " + object.GetName()
			}
		}
		out = append(out, line)
	}
	return out
}

func expectLaid(t testing.TB, what string, works []*workv1.ManifestWork, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, laid(t, works)); diff != "" {
		t.Errorf("%s: works (-want +got):\n%s", what, diff)
	}
}

// Case M1, law 21.
func TestLaw21ContentOverTheLimitIsSplitWithNamespacesAndDefinitionsFirst(t *testing.T) {
	content := append(configMaps(100, "f", "e", "d", "c", "b", "a"), namespaceYAML, crdYAML)
	cluster := &stage{t: t}
	cluster.phase(request(t, 1, payload("1.0.0", content...)), v1alpha1.PhaseDrop)
	expectLaid(t, "split", cluster.present, "00: shop data.example.com a b c d", "01: e f")

	wantWorks := []string{v1alpha1.WorkName("platform", "payments", 0), v1alpha1.WorkName("platform", "payments", 1)}
	if diff := cmp.Diff(wantWorks, cluster.recorded.Works); diff != "" {
		t.Errorf("recorded works (-want +got):\n%s", diff)
	}
	for _, object := range cluster.recorded.Objects {
		want := int32(0)
		if object.Name == "e" || object.Name == "f" {
			want = 1
		}
		if object.Part != want {
			t.Errorf("%s is recorded in part %d, want %d", object.Name, object.Part, want)
		}
	}
	for _, work := range cluster.present {
		if len(work.Name) > 63 || work.Labels[v1alpha1.LabelRolloutUID] != "uid-1" || work.Annotations[v1alpha1.AnnotationDelivery] != "1" {
			t.Errorf("work %s has labels %v and annotations %v", work.Name, work.Labels, work.Annotations)
		}
	}
	if cluster.present[1].Spec.DeleteOption.SelectivelyOrphan != nil {
		t.Errorf("the part without data has orphan rules")
	}
}

func TestLaw21ObjectOverTheLimitIsRefusedByNameSizeAndLimit(t *testing.T) {
	_, err := Render(request(t, 1, payload("1.0.0", bigConfigMap("huge", 600*kib))))
	var tooLarge *TooLargeError
	if !errors.As(err, &tooLarge) || tooLarge.Size <= MaxWorkBytes {
		t.Fatalf("error %v, want a TooLargeError", err)
	}
	for _, part := range []string{"ConfigMap shop/huge", fmt.Sprint(tooLarge.Size), "512000", "1.0.0"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not name %s", err, part)
		}
	}
}

func TestLaw21ContentOverAllPartsIsRefused(t *testing.T) {
	var manifests []string
	for i := range MaxParts + 1 {
		manifests = append(manifests, bigConfigMap(fmt.Sprintf("m%02d", i), 300*kib))
	}
	_, err := Render(request(t, 1, payload("1.0.0", manifests...)))
	var tooLarge *TooLargeError
	if !errors.As(err, &tooLarge) || tooLarge.Object != "" || !strings.Contains(err.Error(), "50 ManifestWorks of 512000 bytes") {
		t.Fatalf("error %v, want one that names the bounds", err)
	}
}

func TestLaw21ObjectKeepsItsPartWhenOthersComeAndGo(t *testing.T) {
	cluster := &stage{t: t}
	cluster.deliver(request(t, 1, payload("1.0.0", configMaps(100, "a", "b", "c", "d", "e", "f")...)))
	expectLaid(t, "first", cluster.present, "00: a b c d", "01: e f")

	cluster.deliver(request(t, 2, payload("2.0.0", configMaps(100, "c", "d", "e", "f", "g")...)))
	expectLaid(t, "e and f stay, g goes where there is room in both phases", cluster.present, "00: c d", "01: e f g")

	cluster.deliver(request(t, 3, payload("3.0.0", configMaps(100, "c", "d", "e", "f", "g", "h")...)))
	expectLaid(t, "h fills the gap", cluster.present, "00: c d h", "01: e f g")

	cluster.deliver(request(t, 4, payload("4.0.0", configMaps(100, "e", "f", "g")...)))
	expectLaid(t, "a part without objects is no empty work", cluster.present, "01: e f g")
	if cluster.recorded.Objects[0].Part != 0 || len(cluster.recorded.Works) != 1 {
		t.Errorf("recorded %v with part %d", cluster.recorded.Works, cluster.recorded.Objects[0].Part)
	}

	cluster.deliver(request(t, 5, payload("1.0.0", configMaps(100, "a", "b", "c", "d", "e", "f")...)))
	expectLaid(t, "back to the first content", cluster.present, "00: a b c d", "01: e f")
}

func TestLaw21ObjectThatMustMoveIsListedByBothPartsFirst(t *testing.T) {
	cluster := &stage{t: t}
	cluster.deliver(request(t, 1, payload("1.0.0", configMaps(100, "a", "b", "c", "d")...)))
	grown := request(t, 2, payload("2.0.0", configMaps(130, "a", "b", "c", "d")...))

	add := cluster.phase(grown, v1alpha1.PhaseAdd)
	expectLaid(t, "phase Add", cluster.present, "00: a b c [d]", "01: d")
	moved := []v1alpha1.ObjectReference{{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "d"}}
	if diff := cmp.Diff(moved, add.Moved); diff != "" || !add.LeavesOut() {
		t.Errorf("moved (-want +got):\n%s", diff)
	}
	first := cluster.present[0].Spec.ManifestConfigs[0]
	if first.ResourceIdentifier.Name != "d" || first.UpdateStrategy.Type != workv1.UpdateStrategyTypeReadOnly {
		t.Errorf("the part that loses the object would still apply it: %+v", first)
	}
	again := cluster.phase(grown, v1alpha1.PhaseAdd)
	if bytesOf(t, add) != bytesOf(t, again) {
		t.Errorf("phase Add changes when it is written again")
	}

	drop := cluster.phase(grown, v1alpha1.PhaseDrop)
	expectLaid(t, "phase Drop", cluster.present, "00: a b c", "01: d")
	again = cluster.phase(grown, v1alpha1.PhaseDrop)
	if bytesOf(t, WorkSet{Works: drop.Works}) != bytesOf(t, WorkSet{Works: again.Works}) {
		t.Errorf("phase Drop changes when it is written again")
	}

	cluster.deliver(request(t, 3, payload("1.0.0", configMaps(100, "a", "b", "c", "d")...)))
	expectLaid(t, "back: what moved stays where it is now", cluster.present, "00: a b c", "01: d")
}

func TestLaw21OldObjectsWithoutRoomAreHeldByPlaceholders(t *testing.T) {
	cluster := &stage{t: t}
	claim := strings.Replace(claimYAML, "name: data", "name: data, annotations: {note: "+strings.Repeat("y", 20*kib)+"}", 1)
	cluster.deliver(request(t, 1, payload("1.0.0", append(configMaps(150, "a", "b", "c"), claim)...)))
	next := request(t, 2, payload("2.0.0", append(configMaps(450, "c"), deploymentYAML)...))
	set := cluster.phase(next, v1alpha1.PhaseAdd)
	expectLaid(t, "data first, then what there is room for", cluster.present, "00: [a] [b] c data", "01: api")
	if len(set.Dropped) != 2 || len(set.Kept) != 1 || len(set.Moved) != 0 {
		t.Errorf("dropped %v, kept %v, moved %v", set.Dropped, set.Kept, set.Moved)
	}
	again := cluster.phase(next, v1alpha1.PhaseAdd)
	if bytesOf(t, set) != bytesOf(t, again) {
		t.Errorf("a placeholder was taken for content: %v", laid(t, again.Works))
	}
	cluster.phase(next, v1alpha1.PhaseDrop)
	expectLaid(t, "phase Drop", cluster.present, "00: c", "01: api")
}

func TestLaw21InterruptedMoveGoesOnInTheNextDelivery(t *testing.T) {
	cluster := &stage{t: t}
	first := configMaps(100, "a", "b", "c", "d")
	cluster.deliver(request(t, 1, payload("1.0.0", first...)))
	cluster.phase(request(t, 2, payload("2.0.0", configMaps(130, "a", "b", "c", "d")...)), v1alpha1.PhaseAdd)
	// The cluster goes back before anything was dropped.
	back := request(t, 3, payload("1.0.0", first...))
	cluster.phase(back, v1alpha1.PhaseAdd)
	expectLaid(t, "phase Add of the way back", cluster.present, "00: a b c [d]", "01: d")
	cluster.phase(back, v1alpha1.PhaseDrop)
	expectLaid(t, "phase Drop of the way back", cluster.present, "00: a b c", "01: d")
}

func TestPartThatLosesAllItHasIsWrittenBeforeTheOthers(t *testing.T) {
	cluster := &stage{t: t}
	cluster.deliver(request(t, 1, payload("1.0.0", append(configMaps(240, "b"), configMaps(200, "a")...)...)))
	set := cluster.phase(request(t, 2, payload("2.0.0", bigConfigMap("b", 499*kib+500))), v1alpha1.PhaseAdd)
	expectLaid(t, "phase Add", set.Works, "00: a [b]", "01: b")
}

func TestObjectOfAWorkThatIsBeingDeletedWaitsForItAndNothingElseJoins(t *testing.T) {
	cluster := &stage{t: t}
	cluster.deliver(request(t, 1, payload("1.0.0", configMaps(100, "a", "b", "c", "d", "e")...)))
	now := metav1.Now()
	cluster.present[1].DeletionTimestamp = &now
	set := cluster.phase(request(t, 2, payload("2.0.0", configMaps(100, "a", "b", "c", "d", "e", "f")...)), v1alpha1.PhaseDrop)
	expectLaid(t, "works", set.Works, "00: a b c d", "01: e", "02: f")
}

func TestDefinitionIsKeptFromItsContentAndNotFromAPlaceholder(t *testing.T) {
	both := twoVersions("served: true, storage: false", "served: true, storage: true")
	first := written(t, request(t, 1, payload("1.0.0", both)))
	listing := first.DeepCopy()
	listing.Name = v1alpha1.WorkName("platform", "payments", 1)
	listing.Spec.Workload.Manifests = []workv1.Manifest{must(encode(placeholder(must(Objects([]*workv1.ManifestWork{first}))[0])))}
	back := request(t, 2, payload("0.9.0", crdYAML))
	back.Present = []*workv1.ManifestWork{first, listing}
	if versions := crdVersions(render(t, back).Objects[0]); len(versions) != 2 {
		t.Errorf("versions %v, want both kept", versions)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Law 21 over random histories: whatever the contents and however often a
// delivery is cut short, no work exceeds the limit, nothing is lost, nothing is
// in two works after the phase Drop, no object is dropped by its old part before
// the new one carried it, and writing again changes no byte.
func TestLaw21HoldsInRandomHistories(t *testing.T) {
	for seed := range int64(40) {
		random := rand.New(rand.NewSource(seed))
		cluster := &stage{t: t, limit: 12 * kib}
		for number := int64(1); number <= 12; number++ {
			var manifests []string
			want := map[string]bool{}
			for i := range 8 {
				if random.Intn(3) == 0 {
					continue
				}
				name := fmt.Sprintf("m%d", i)
				manifests = append(manifests, bigConfigMap(name, 1+random.Intn(11*kib)))
				want[name] = true
			}
			if len(manifests) == 0 {
				continue
			}
			delivery := request(t, number, payload(fmt.Sprintf("%d.0.0", number), manifests...))
			before := carriers(t, cluster.present)
			set := cluster.phase(delivery, v1alpha1.PhaseAdd)
			for name, parts := range before {
				for part := range parts {
					if !carriers(t, cluster.present)[name][part] {
						t.Fatalf("seed %d, delivery %d: %s vanishes from part %s in the phase Add", seed, number, name, part)
					}
				}
			}
			if again := cluster.phase(delivery, v1alpha1.PhaseAdd); bytesOf(t, again) != bytesOf(t, set) {
				t.Fatalf("seed %d, delivery %d: the phase Add changes when it is written again", seed, number)
			}
			if random.Intn(4) == 0 {
				continue
			}
			set = cluster.phase(delivery, v1alpha1.PhaseDrop)
			if again := cluster.phase(delivery, v1alpha1.PhaseDrop); bytesOf(t, WorkSet{Works: again.Works}) != bytesOf(t, WorkSet{Works: set.Works}) {
				t.Fatalf("seed %d, delivery %d: the phase Drop changes when it is written again", seed, number)
			}
			after := carriers(t, cluster.present)
			if len(after) != len(want) {
				t.Fatalf("seed %d, delivery %d: %d objects are carried, want %d", seed, number, len(after), len(want))
			}
			for name, parts := range after {
				if !want[name] || len(parts) != 1 {
					t.Fatalf("seed %d, delivery %d: %s is in parts %v", seed, number, name, parts)
				}
			}
		}
	}
}

// carriers maps the names of objects to the works that list them.
func carriers(t testing.TB, works []*workv1.ManifestWork) map[string]map[string]bool {
	t.Helper()
	result := map[string]map[string]bool{}
	for _, work := range works {
		for _, object := range must(Objects([]*workv1.ManifestWork{work})) {
			if result[object.GetName()] == nil {
				result[object.GetName()] = map[string]bool{}
			}
			result[object.GetName()][work.Name] = true
		}
	}
	return result
}
