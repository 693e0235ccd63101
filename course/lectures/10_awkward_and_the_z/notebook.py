# %% [markdown] id="the-question-asked"
# ## How do you hand a list of lists to a GPU?
#
# A collision of two protons leaves no muon in the detector, or one, or seven. In thousands of the 50,000 events here, a
# Z boson decayed into two muons. To find it, you need the muons of each event *together*, so your data are a list of
# lists. NumPy has no array for a list of lists, and a GPU needs its numbers next to each other in memory. Run the cell,
# and look at how much memory a rectangular array would need.
#
# The events are simulated by `gpucourse.data`, so you don't have to download anything, and the true mass of the Z is
# known. `gpucourse data fetch` downloads real events, the 2.2 GB of [record 12341 of CMS Open
# Data](https://opendata.cern.ch/record/12341). Masses, energies and momenta are given in GeV.

# %% id="the-question"
# %load_ext gpucourse
import math
from importlib.resources import files

import awkward as ak
import numpy as np
import uproot
import virtualgpu
from gpucourse import lesson
from gpucourse.views.picture import Picture, canvas
from numba import cuda, int64

check, hint, predict = lesson("10_awkward_and_the_z")
ak.numba.register_and_check()  # from here on Numba knows Awkward Arrays

path = files("gpucourse.data") / "dimuons.root"
tree = uproot.open(path)["Events"]
muons = ak.zip({name: tree[f"Muon_{name}"].array() for name in ("pt", "eta", "phi", "charge")})

for event in muons.pt[:5].to_list():
    print("muons of", [round(pt) for pt in event], "GeV")
events_with = np.bincount(ak.to_numpy(ak.num(muons)))
places = len(muons) * (events_with.size - 1)
figure, axes = canvas(8, 2.2)
axes.bar(range(events_with.size), events_with, color="#0072B2")
axes.set(xlabel="muons in the event", ylabel="events")
Picture(figure, f"Bars, events by their muons: {', '.join(f'{k}: {n:,}' for k, n in enumerate(events_with))}. A "
                f"rectangle of {events_with.size - 1} columns would have {places:,} places for "
                f"{ak.count(muons.pt):,} muons.")

# %% [markdown] id="the-question-stands"
# A rectangular array for up to seven muons per event would have 350,000 elements for 71,009 muons. Four of five
# elements would be empty, and each calculation would have to skip them. **What does a GPU get instead, and which thread
# does which part of the work?**

# %% [markdown] id="layout-text"
# ## 1. What a jagged array is
#
# An **Awkward Array** keeps each field of all muons of all events in one flat column, the **content**, and next to it
# the **offsets**. Event `i` owns the muons from `offsets[i]` up to, but not including, `offsets[i + 1]`.

# %% id="layout"
print(muons.type, "\n")
print("offsets", muons.layout.offsets.data[:7], "...")
print("pt     ", muons.pt.layout.content.data[:9].round(1), "...")


def draw_lists(lists, label):
    """A jagged array of numbers as it lies in memory: offsets above, content below."""
    figure, axes = canvas(10, 1.9)
    ends = np.cumsum([0, *map(len, lists)])
    for k, (values, start) in enumerate(zip(lists, ends, strict=False)):
        for j, value in enumerate(values):
            axes.add_patch(figure_box((start + j, 0), ("#56B4E9", "#E69F00", "#CC79A7")[k % 3]))
            axes.text(start + j + 0.5, 0.5, f"{value:.0f}", ha="center", va="center", color="black")
        axes.text((start + ends[k + 1]) / 2 + (0 if values else 0.12), 1.25,
                  f"event {k}" if values else f"{k}: none", ha="center", fontsize=9,
                  rotation=0 if values else 60)
    for k, end in enumerate(ends):
        axes.plot([end, end], [-0.35, 1.1], color="0.5", lw=2)
        near = k > 0 and ends[k - 1] == end  # an empty event: two offsets in one place
        axes.text(end, -1.25 if near else -0.75, f"{end}", ha="center", weight="bold")
    axes.set(xlim=(-0.5, ends[-1] + 0.5), ylim=(-1.5, 2.4), title=f"content: {label}; offsets below")
    axes.axis("off")
    return Picture(figure, f"{ends[-1]} numbers side by side ({label}), cut into {len(lists)} events by "
                           f"the offsets {', '.join(map(str, ends))}; equal neighbours among the "
                           "offsets mean an event without muons.")


def figure_box(corner, colour):
    from matplotlib.patches import Rectangle

    return Rectangle(corner, 1, 1, facecolor=colour, edgecolor="white", lw=2)


draw_lists(muons.pt[11:20].to_list(), "pt of nine events in GeV")

# %% [markdown] id="owners-task"
# ### Exercise: whose muon?
#
# A kernel that reads muon number `k` has to know to which event it belongs. Write `owners(offsets)`, which returns a
# NumPy array with the event number of each muon between the first offset and the last. In a slice, the first offset
# need not be 0. For example, `[0, 2, 2, 3]` gives `[0, 0, 2]`, because event 1 has no muon. You need no loop.

# %% id="owners-exercise" tags=["exercise"]
def owners(offsets):
    event_of_muon = None
    ### BEGIN SOLUTION
    counts = np.diff(offsets)
    event_of_muon = np.repeat(np.arange(counts.size), counts)
    ### END SOLUTION
    return event_of_muon


# %% id="owners-check"
check("owners", owners)

# %% [markdown] id="views-predict" tags=["whole", "predict"]
# The array contains nothing else, so it takes 16 bytes for each muon, 8 bytes for each event, and has no empty
# elements. The objects that `muons[3][0]` seems to contain are created only when you access them.
#
# The whole array takes 1.54 MB. *Predict:* how much memory do events 1000 to 1999 take, and how much do the 22,843
# muons above 20 GeV take, with their events?

# %% id="views-guess" tags=["whole"]
predict("views",
        "a fiftieth of it, and a third: what is left",
        "three quarters of it, and more than all of it",
        "all of it, and a third")

# %% id="views" tags=["whole"]
hard = muons[muons.pt > 20]
packed = ak.to_packed(hard)
for name, array in {"all": muons, "events 1000-1999": muons[1000:2000], "pt > 20": hard,
                    "pt > 20, packed": packed}.items():
    inside = f"{type(array.layout).__name__} of {type(array.layout.content).__name__}"
    print(f"{name:18}{len(array):7,} events {ak.count(array.pt):7,} muons {array.nbytes:10,} bytes  {inside}")
print("\noffsets of events 1000-1999:", muons[1000:2000].layout.offsets.data[:4], "...")

# %% [markdown] id="views-why" tags=["whole", "why"]
# A slice copies nothing. It has fewer offsets, which **need not begin at 0**, and *all* of the content. A cut makes the
# array *larger*. It adds new offsets and an index, in an `IndexedArray`, which says which muons of the old content
# remain. This makes the next cut cheap. Before you copy an array to a device or read it many times, call
# `ak.to_packed`, which writes the remaining elements next to each other.

# %% [markdown] id="views-then" tags=["whole"]
# At the end of this lecture you will see a peak at 91 GeV. You will compute the masses in two ways, first with
# operations on whole arrays and then with a kernel in which each thread computes one event. But first we look at how
# the columns are read from a file.

# %% [markdown] id="file-text"
# ## 2. From a file to columns
#
# Physicists store events in **ROOT files**. A file contains *trees*, and a tree is a table. Its columns, the
# *branches*, are stored separately and compressed, in pieces called *baskets*. [uproot](https://uproot.readthedocs.io)
# reads these files without ROOT. Our file has the same layout as the files of CMS. The next cell lists its branches,
# where `[]` marks a branch with a list for each event.

# %% id="branches"
print(f"the file has {path.stat().st_size:,} bytes; its tree has {tree.num_entries:,} events\n")
print(f"{'branch':14}{'type':12}{'compressed':>12}{'bytes':>10}{'baskets':>9}")
for branch in tree.branches:
    print(f"{branch.name:14}{branch.typename:12}{branch.compressed_bytes:12,}"
          f"{branch.uncompressed_bytes:10,}{branch.num_baskets:9}")

# %% [markdown] id="read-predict" tags=["predict"]
# *Predict:* how many bytes of the file are read for the `pt` of all events? And how many for the `pt` of the first
# hundred events?

# %% id="what-is-read-guess"
predict("what-is-read",
        "all of it, both times",
        "one branch, and a hundredth of it or less",
        "one branch, and the same bytes again")

# %% id="what-is-read"
def bytes_read(branches, **limits):
    with uproot.open(path) as fresh:
        fresh_tree, source = fresh["Events"], fresh.file.source
        before = source.num_requested_bytes  # opening it has read the table of contents
        fresh_tree.arrays(branches, **limits)
        return source.num_requested_bytes - before


print(f"all branches:        {bytes_read(None):10,} bytes")
print(f"pt:                  {bytes_read(['Muon_pt']):10,} bytes")
print(f"pt, 100 events:      {bytes_read(['Muon_pt'], entry_stop=100):10,} bytes")

# %% [markdown] id="what-is-read-why" tags=["why"]
# Reading one branch takes only the bytes of that branch, so read only the columns that you need. But reading 100 events
# takes as many bytes as reading all of them. A basket is compressed as one piece, and this small file has only one
# basket for each branch. A real file of gigabytes has hundreds of baskets. There `entry_stop` does save reading, and so
# does `uproot.iterate`, which goes through a file in steps. The CPU decompresses the baskets, so the columns that you
# copy to the GPU are not compressed.

# %% [markdown] id="masks-predict" tags=["predict"]
# ## 3. Whole arrays at a time: cuts
#
# Comparisons, arithmetic and NumPy's functions work on the content and keep the lists unchanged. So there are two kinds
# of masks, with one truth value for each *muon* or one for each *event*.
#
# *Predict:* which of these two changes the number of events?

# %% id="masks-guess"
predict("masks", "the mask of muons", "the mask of events", "both")

# %% id="masks"
hard = muons[muons.pt > 20]
pairs_at_least = muons[ak.num(muons) >= 2]
for name, array in {"all": muons, "muons[muons.pt > 20]": hard,
                    "muons[ak.num(muons) >= 2]": pairs_at_least}.items():
    print(f"{name:28}{len(array):7,} events, the first have {ak.num(array)[:8].to_list()} muons")
print("highest pt of each:", ak.max(muons.pt, axis=1)[11:16].to_list())

# %% [markdown] id="masks-why" tags=["why"]
# Only the mask of events does. A mask of muons shortens the lists but keeps every event, even if its list becomes
# empty. A mask of events removes whole events. Reductions with `axis=1` compute one value for each list. An empty list
# has no largest value, so Awkward returns `None` for it.

# %% [markdown] id="first-of-none-predict" tags=["predict"]
# *Predict:* what is `muons.pt[:, 0]`, the first muon of each event?

# %% id="first-of-none-guess"
predict("first-of-none", "a number for each event", "None for the empty events", "an error")

# %% id="first-of-none" raises="IndexError"
muons.pt[:, 0]

# %% [markdown] id="first-of-none-why" tags=["why"]
# It is the error `index out of range while attempting to get index 0`, because some lists have no element 0. The
# message names the Awkward loop that noticed it, but not the 11,133 events that caused it. You can choose the events
# first, as in `pairs_at_least.pt[:, 0]`, or use `ak.firsts(muons.pt)`, which returns `None` for empty lists.

# %% [markdown] id="first-of-none-then"
# Remember this error, because in section 6 you will ask what happens when a thread makes the same mistake.

# %% [markdown] id="select-task"
# ### Exercise: a clean pair
#
# Write `clean_pairs(muons)`. First remove the muons with `pt` of 20 GeV or less, or with `eta` beyond ±2.1. Then keep
# the events in which exactly two muons of opposite charge are left. The result has two muons in every event, so
# `[:, 0]` works on it. For arrays, "and" is written `&`, and each comparison needs parentheses.

# %% id="select-exercise" tags=["exercise"]
def clean_pairs(muons):
    good = muons
    ### BEGIN SOLUTION
    good = muons[(muons.pt > 20) & (abs(muons.eta) < 2.1)]
    good = good[(ak.num(good) == 2) & (ak.sum(good.charge, axis=1) == 0)]
    ### END SOLUTION
    return good


# %% id="select-check"
check("clean-pairs", clean_pairs)

# %% [markdown] id="combinations-predict" tags=["predict"]
# ## 4. Pairs and four-momenta
#
# `ak.combinations(array, 2)` makes all pairs within each event. *Predict:* how many pairs does an event with seven
# muons have, and how many does an event with a single muon have?

# %% id="combinations-guess"
predict("combinations", "49, and 1", "42, and 0", "21, and none")

# %% id="combinations"
one, other = ak.unzip(ak.combinations(muons.pt, 2))
print("muons", muons.pt[11:14].to_list())
print("one  ", one[11:14].to_list())
print("other", other[11:14].to_list())
print(f"{ak.count(muons.pt):,} muons make {ak.count(one):,} pairs;",
      f"seven make {ak.num(one)[np.argmax(ak.num(muons))]}, one makes {ak.num(one)[4]}")

# %% [markdown] id="combinations-why" tags=["why"]
# Seven muons make 7 × 6 / 2 = 21 pairs. A single muon makes none, but its event remains, with an empty list.

# %% [markdown] id="vector-text"
# A particle's **four-momentum** combines its energy and the three components of its momentum. You add two four-momenta
# component by component, and the mass of a pair is the mass of this sum. With [vector](https://vector.readthedocs.io),
# Awkward Arrays can hold four-momenta, if the fields have the right names and the record is called `Momentum4D`. Then
# `+`, `.mass`, `.pt`, `.deltaR(…)` and others work on all pairs of all events at once.

# %% id="vector"
import hist
import vector
from gpucourse.data import MUON_MASS

vector.register_awkward()


def opposite_pairs(muons, precision=np.float64):
    """Masses [GeV] of all pairs of opposite charge, event by event."""
    momenta = ak.with_field(ak.values_astype(muons, precision), precision(MUON_MASS), "mass")
    one, other = ak.unzip(ak.combinations(ak.with_name(momenta, "Momentum4D"), 2))
    opposite = one.charge != other.charge
    return (one[opposite] + other[opposite]).mass


masses = opposite_pairs(muons)
print(masses.type, "with", f"{ak.count(masses):,} masses:", masses[:4].to_list())
error = ak.max(abs(opposite_pairs(muons, np.float32) - masses))
print(f"computed in float32, some are off by {1000 * error:.0f} MeV")

# %% [markdown] id="float32-text"
# The numbers in the file are float32, which has seven digits. The computation of the mass subtracts large numbers that
# are nearly equal, so few of the seven digits remain, unless you convert to float64 *before* the arithmetic.
#
# Now look at the spectrum. [hist](https://hist.readthedocs.io) makes histograms whose axes know their edges and their
# names.

# %% id="spectrum"
def histogram(masses):
    counts = hist.Hist.new.Reg(120, 0, 120, name="mass", label="mass of the pair [GeV]").Int64()
    return counts.fill(mass=masses)


def draw_histogram(counts, title):
    figure, axes = canvas(9, 2.8)
    values, edges = counts.values(), counts.axes["mass"].edges
    axes.stairs(values, edges, fill=True, color="#0072B2")
    axes.set(xlabel=counts.axes["mass"].label, ylabel="pairs per GeV", xlim=(0, 120), title=title)
    peak = 60 + int(np.argmax(values[60:]))
    return Picture(figure, f"{title}: {values.sum():,.0f} pairs between 0 and 120 GeV, in peaks at 3, 9 and "
                           f"{peak} GeV; the last has {values[peak]:,} in its fullest bin.")


all_pairs = histogram(ak.flatten(masses))
draw_histogram(all_pairs, "All pairs of opposite charge")

# %% [markdown] id="spectrum-why"
# The Z appears at 91 GeV, the J/ψ at 3 GeV and the Υ at 9 GeV. Below the peaks are pairs that don't come from one
# particle, because their two muons have different origins. In project 3 you will choose among the pairs of an event,
# and fit the peak. `all_pairs[85j:97j:sum]` counts between two *masses*, because `j` marks a value on the axis, whereas
# a plain number would mean a bin.

# %% [markdown] id="device-text"
# ## 5. The same on the device
#
# `ak.to_backend(array, "cuda")` copies only the offsets and columns to the device. There they are CuPy arrays, and the
# same expressions still work, including those of `vector`.

# %% id="device"
d_muons = ak.to_backend(muons, "cuda")
print(f"{d_muons.nbytes:,} bytes on the {ak.backend(d_muons)} backend:", type(d_muons.layout.offsets.data))
with virtualgpu.launches() as launched:
    d_masses = opposite_pairs(d_muons)
print("masses on:", ak.backend(d_masses), "- the same as before:",
      ak.array_equal(ak.to_backend(d_masses, "cpu"), masses))

# %% [markdown] id="mixing-predict" tags=["predict"]
# *Predict:* `d_muons.pt` is on the device and `muons.pt` on the host. Is `d_muons.pt / muons.pt` slow, or an error?

# %% id="mixing-guess"
predict("mixing", "slow: it is copied first", "an error")

# %% id="mixing" raises="ValueError"
d_muons.pt / muons.pt

# %% [markdown] id="mixing-why" tags=["why"]
# It is the error `incompatible backends`, because Awkward never copies between host and device unless you tell it to.
# Call `ak.to_backend` once in each direction.
#
# The work is now divided among several libraries. On a GPU, CuPy's kernels do the arithmetic, Awkward's own kernels
# handle the lists, and reductions such as `ak.sum` use NVIDIA's `cuda.compute`. Awkward's kernels are compiled when
# they are first needed, which takes a while. **Without a GPU**, CuPy's stand-in does the arithmetic. In place of
# Awkward's GPU kernels, its CPU kernels run on the memory of the virtual GPU. The results and the errors are the same,
# but you cannot see launches of Awkward's kernels.

# %% [markdown] id="mixing-then"
# The stand-in has recorded the kernels that CuPy *would* launch.

# %% id="launches"
def kernels_of(launched):
    """How many kernels of CuPy's, and how many bytes the elementwise ones among them move."""
    moved = 0
    for launch in launched:
        kinds = launch.details.get("dtypes", ())  # of inputs and outputs; 'int' is a Python number
        moved += launch.size * sum(np.dtype(k).itemsize for k in kinds if k not in ("int", "float"))
    return len(launched), moved


kernels, moved = kernels_of(launched)
for launch in list(launched)[38:44]:
    print(f"{launch.name:42} on {launch.size:6,} elements")
print(f"... of {kernels} kernels; the elementwise ones alone move {moved / 1e6:.1f} MB")
print(f"muons and masses together have {(d_muons.nbytes + d_masses.nbytes) / 1e6:.1f} MB")

# %% [markdown] id="launches-why"
# There are a hundred kernels. On a GPU this list is empty, but Nsight Systems shows the kernels there. Each kernel
# reads its inputs from memory and writes its result for the next one to read, and together they move twenty times as
# many bytes as the inputs and the final result have. Even that is a lower bound, because neither Awkward's own kernels
# nor the copies by `take` are included. This is the price of working with whole arrays. You can ask any question in one
# line, but it takes many passes over memory.

# %% [markdown] id="kernel-text"
# ## 6. One thread, one event
#
# You can also write the loop that a physicist would write for *one* event, and let each thread process its own event.
# Numba's kernels can read Awkward Arrays in place. From now on we compute the mass of an event's **two hardest muons**,
# those with the highest `pt`, if their charges are opposite. The next cell is a first attempt at this.

# %% id="no-extension" raises="NotImplementedError"
@cuda.jit
def highest_pt(muons, highest):
    for i in range(cuda.grid(1), len(muons), cuda.gridsize(1)):
        highest[i] = 0
        for muon in muons[i]:
            highest[i] = max(highest[i], muon.pt)


highest = cuda.device_array(len(muons), np.float32)
highest_pt[391, 128](d_muons[:1000], highest)

# %% [markdown] id="no-extension-why"
# The message is only a tuple. It begins with the *type* that the array has for Numba, `ak.ArrayView(…)`, which
# describes the offsets and the four columns. Numba knows this type, but it doesn't know how to pass such an object to a
# kernel. Awkward Array knows how, so the decorator has to name its extension, with `extensions=[ak.numba.cuda]`.
#
# In the kernel, you can use `len(muons)`, `muons[i]`, slices, `for muon in muons[i]:` and `enumerate`, and access
# fields by name. A kernel cannot change the array, and cannot call the functions of Awkward and NumPy. On the host, an
# index that doesn't exist is an error, but a thread has no way to raise one. Project 3 shows what happens instead.

# %% id="hardest"
@cuda.jit(device=True)
def pair_mass(pt1, eta1, phi1, pt2, eta2, phi2):
    return math.sqrt(2 * pt1 * pt2 * (math.cosh(eta1 - eta2) - math.cos(phi1 - phi2)))


@cuda.jit(extensions=[ak.numba.cuda])
def hardest_pairs(muons, masses):
    """The mass of each event's two hardest muons, NaN where there is no such pair."""
    for i in range(cuda.grid(1), len(muons), cuda.gridsize(1)):
        event = muons[i]
        first = second = -1
        pt1 = pt2 = np.float32(0)
        for j, muon in enumerate(event):
            if muon.pt > pt1:
                second, pt2 = first, pt1  # the hardest so far becomes the second
                first, pt1 = j, muon.pt
            elif muon.pt > pt2:
                second, pt2 = j, muon.pt
        masses[i] = math.nan
        if second >= 0:
            one, other = event[first], event[second]
            if one.charge != other.charge:
                masses[i] = pair_mass(pt1, one.eta, one.phi, pt2, other.eta, other.phi)


d_hardest = cuda.device_array(len(muons), np.float64)
hardest_pairs[391, 128](d_muons, d_hardest)
hardest = d_hardest.copy_to_host()
print(hardest[:6].round(2), f"... {np.count_nonzero(~np.isnan(hardest)):,} pairs")

# %% [markdown] id="by-arrays-text" tags=["whole"]
# To answer the same question with whole arrays, you sort each event by `pt` and take the first two muons.

# %% id="by-arrays" tags=["whole"]
def hardest_by_arrays(muons):
    muons = ak.with_field(ak.values_astype(muons, np.float64), MUON_MASS, "mass")
    muons = ak.with_name(muons, "Momentum4D")
    muons = muons[ak.num(muons) >= 2]
    two = muons[ak.argsort(muons.pt, axis=1, ascending=False)][:, :2]
    one, other = two[:, 0], two[:, 1]
    opposite = one.charge != other.charge
    return (one[opposite] + other[opposite]).mass


with virtualgpu.launches() as launched:
    by_arrays = hardest_by_arrays(d_muons)
by_kernel = hardest[~np.isnan(hardest)]
difference = abs(by_kernel - ak.to_numpy(ak.to_backend(by_arrays, "cpu")))
print(f"{len(by_arrays):,} pairs; the two ways differ by {1000 * difference.max():.0f} MeV at most,",
      f"by {1000 * np.median(difference):.1f} MeV in the middle")

# %% [markdown] id="traffic-predict" tags=["whole", "predict"]
# The kernel leaves out the muon's own mass, 0.106 GeV, and computes `cosh - cos` in float32. Both matter most for the
# lightest pairs. Above 80 GeV the results of the kernel and the array expression agree to a few MeV.
#
# *Predict:* every muon, every offset and every mass must be moved at least once, which is 1.9 MB. How many times this
# minimum do the kernel and the array expression move? We count sectors of 32 bytes, as in the puzzles.

# %% id="traffic-guess" tags=["whole"]
predict("traffic",
        "once, and once",
        "the kernel 2 to 3 times, the array expression 10 times or more",
        "the kernel 10 times, the array expression 2 to 3")

# %% id="traffic" tags=["whole"]
def counted(muons):
    """MB in sectors and the share of lanes lost, as the virtual GPU counts them."""
    with virtualgpu.profile() as profile:
        hardest_pairs[391, 128](muons, d_hardest)
    counts = profile.counters
    return 32 * counts.global_sectors / 1e6, counts.lanes_lost / (32 * counts.warp_instructions)


kernel_moved, kernel_lost = counted(d_muons)
kernels, moved = kernels_of(launched)
print(f"at least        {(d_muons.nbytes + d_hardest.nbytes) / 1e6:6.1f} MB")
print(f"kernel          {kernel_moved:6.1f} MB in sectors, 1 launch")
print(f"whole arrays  > {moved / 1e6:6.1f} MB, {kernels} launches and Awkward's own")

# %% [markdown] id="traffic-why" tags=["whole", "why"]
# The kernel moves 2.7 times the minimum. Neighbouring events are next to each other in memory, so neighbouring threads
# read neighbouring sectors. But a warp reads the same sectors again for the second muon of its events, and for their
# offsets. A GPU's cache serves most of these repeated reads. The array expression moves more than six times as much as
# the kernel, in a hundred launches. This is the advantage of a kernel. It makes only *one* pass over memory, whatever
# you compute.

# %% [markdown] id="turns-predict" tags=["predict"]
# The kernel has a cost that no array expression has. A warp takes 32 events and loops until the event with the most
# muons is finished. An event has 1.4 muons on average. *Predict:* how many iterations does a warp make on average?

# %% id="turns-guess"
predict("turns", "1.4", "7, as in the largest event", "nearly 4")

# %% id="turns"
per_warp = np.zeros(391 * 4 * 32, int)
per_warp[: len(muons)] = ak.num(muons)
per_warp = per_warp.reshape(-1, 32)  # a row for each warp
turns = per_warp.max(axis=1)
print(f"muons per event: {ak.mean(ak.num(muons)):.2f}; iterations per warp: {turns.mean():.2f}")
print(f"busy lanes in the loop: {per_warp.sum() / (32 * turns.sum()):.0%}")

# %% id="turns-picture"
from gpucourse import timeline

timeline(hardest_pairs, 2, 64, d_muons[:128], np.zeros(128), warps=4)

# %% [markdown] id="turns-why" tags=["why"]
# It makes nearly four, because among 32 events there is nearly always one with three muons or more. The pale lanes in
# the picture wait, because their events are finished or have no pair.

# %% [markdown] id="alike-predict" tags=["whole", "predict"]
# In the whole kernel, half of the lanes of an issued instruction are idle on average. *Predict:* how could you give a
# warp events of similar length, without changing the kernel?

# %% id="alike-guess" tags=["whole"]
predict("alike", "larger blocks", "sort the events by their number of muons", "more threads")

# %% id="alike" tags=["whole"]
order = ak.argsort(ak.num(muons), ascending=False)
d_alike = ak.to_backend(ak.to_packed(muons[order]), "cuda")
alike_moved, alike_lost = counted(d_alike)
same = np.array_equal(d_hardest.copy_to_host(), hardest[ak.to_numpy(order)], equal_nan=True)
print("the same masses:", same)
print(f"as they came:       {kernel_lost:4.0%} of lanes lost, {kernel_moved:.1f} MB in sectors")
print(f"by number of muons: {alike_lost:4.0%} of lanes lost, {alike_moved:.1f} MB in sectors")

# %% [markdown] id="alike-why" tags=["whole", "why"]
# Sort the events by their number of muons. Then the events of a warp end together, and only the `if`s still leave some
# lanes idle. You need `ak.to_packed` here, because without it the sorted array points into the old content, and
# neighbouring threads no longer read neighbouring elements. Sorting needs its own passes over memory, so it is
# worthwhile only if you use the array often, or if the work for each muon is heavy.

# %% [markdown] id="count-task"
# ### Exercise: how many pairs?
#
# Write the kernel `count_pairs`, which sets `counts[i]` to the number of pairs of opposite charge in event `i`. You
# need no loop over pairs if you work out how many partners each positive muon has. The check tries grids of any size.

# %% id="count-exercise" tags=["exercise"]
@cuda.jit(extensions=[ak.numba.cuda])
def count_pairs(muons, counts):
    for i in range(cuda.grid(1), len(muons), cuda.gridsize(1)):
        ### BEGIN SOLUTION
        positive = 0
        event = muons[i]
        for muon in event:
            if muon.charge > 0:
                positive += 1
        counts[i] = positive * (len(event) - positive)
        ### END SOLUTION


# %% id="count-check"
check("count-pairs", count_pairs)

# %% [markdown] id="jagged-out-predict" tags=["predict"]
# ## 7. Lists as results
#
# A kernel writes into arrays whose size is known before the launch. But the number of muons that pass a cut isn't
# known, and threads cannot append. *Predict:* thread 7 has three muons to write. What must it know to write them where
# no other thread writes, without asking any other thread?

# %% id="count-pass-guess"
predict("count-pass",
        "nothing: it takes the next free element",
        "how many muons it has itself",
        "how many muons the threads before it have")

# %% id="count-pass"
@cuda.jit(extensions=[ak.numba.cuda])
def count_hard(muons, threshold, counts):
    for i in range(cuda.grid(1), len(muons), cuda.gridsize(1)):
        kept = 0
        for muon in muons[i]:
            if muon.pt > threshold:
                kept += 1
        counts[i] = kept


d_counts = cuda.device_array(len(muons), np.int64)
count_hard[391, 128](d_muons, 20, d_counts)
print("counts", d_counts[:8].copy_to_host())

# %% [markdown] id="count-pass-why" tags=["why"]
# It must know how many muons the threads before it have, and this is exactly the information in offsets. So you need
# **two passes**, with a **scan** between them, which is a running sum as in `np.cumsum`. The first pass counts, the
# scan turns the counts into offsets, and the second pass fills. `ak.combinations` works internally in the same way.

# %% [markdown] id="scan-text"
# Every block scans its own counts. Then the totals of the blocks are scanned in the same way, and each block adds the
# sum of the blocks before it. So 50,000 threads find out where to write, and no number leaves the device. You will
# write such a scan yourself in "Scan: where does mine go?".

# %% id="scan"
THREADS = 128


@cuda.jit
def scan_blocks(values, sums, totals):
    tile = cuda.shared.array(THREADS, int64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    tile[t] = values[i] if i < values.size else 0
    cuda.syncthreads()
    distance = 1
    while distance < THREADS:
        left = tile[t - distance] if t >= distance else 0
        cuda.syncthreads()
        tile[t] += left
        cuda.syncthreads()
        distance *= 2
    if i < values.size:
        sums[i] = tile[t]
    if t == THREADS - 1:
        totals[cuda.blockIdx.x] = tile[t]


@cuda.jit
def add_blocks_before(sums, totals):
    i = cuda.grid(1)
    if cuda.blockIdx.x > 0 and i < sums.size:
        sums[i] += totals[cuda.blockIdx.x - 1]


def scan(d_values, d_sums):
    """The inclusive scan of int64 numbers on the device."""
    blocks = (d_values.size + THREADS - 1) // THREADS
    d_totals = cuda.device_array(blocks, np.int64)
    scan_blocks[blocks, THREADS](d_values, d_sums, d_totals)
    if blocks > 1:
        scan(d_totals, d_totals)
        add_blocks_before[blocks, THREADS](d_sums, d_totals)


# %% id="offsets"
d_offsets = cuda.to_device(np.zeros(len(muons) + 1, np.int64))
scan(d_counts, d_offsets[1:])  # the first stays 0
room = int(d_offsets[len(muons)])
print("offsets", d_offsets[:8].copy_to_host(), "... the last one says how much room:", room)

# %% [markdown] id="fill-task"
# ### Exercise: the second pass
#
# Write `fill_hard`, which copies the `pt` of those muons of event `i` that are above the threshold to `pts`, starting
# at `pts[offsets[i]]`, in the order that they have in the event.

# %% id="fill-exercise" tags=["exercise"]
@cuda.jit(extensions=[ak.numba.cuda])
def fill_hard(muons, threshold, offsets, pts):
    for i in range(cuda.grid(1), len(muons), cuda.gridsize(1)):
        ### BEGIN SOLUTION
        place = offsets[i]
        for muon in muons[i]:
            if muon.pt > threshold:
                pts[place] = muon.pt
                place += 1
        ### END SOLUTION


import cupy  # whose arrays Awkward takes

d_pts = cuda.to_device(np.zeros(room, np.float32))
fill_hard[391, 128](d_muons, 20, d_offsets, d_pts)
hard_pt = ak.unflatten(cupy.asarray(d_pts), cupy.asarray(d_counts))
print(hard_pt.type, "on", ak.backend(hard_pt), "- as Awkward makes it:",
      ak.array_equal(hard_pt, d_muons.pt[d_muons.pt > 20], check_parameters=False))

# %% [markdown] id="compaction-text"
# The combination of count, scan and fill is called **stream compaction**, and here we apply it to lists. Each thread
# can write as many numbers as it has, no two threads write to one element, and the numbers stay in the order of the
# events. In real work use `cupy.cumsum` for the scan, which moves half the bytes.

# %% id="fill-check"
check("fill-hard", fill_hard)

# %% [markdown] id="peak-text"
# ## 8. The peak, and which way to choose
#
# The whole analysis takes one copy to the device, one kernel, and one copy back.

# %% id="the-peak"
by_two_hardest = histogram(hardest[~np.isnan(hardest)])
near_z = {name: int(counts[85j:97j:sum]) for name, counts in
          (("all pairs", all_pairs), ("two hardest", by_two_hardest))}
print("between 85 and 97 GeV:", near_z)
draw_histogram(by_two_hardest, "The two hardest muons of each event")

# %% [markdown] id="peak-why"
# There is less background under the peaks than with all pairs of an event, and almost no Z is lost, because the two
# muons of such a heavy particle are usually the two hardest. Project 3 asks which pair is the best choice.
#
# | | whole arrays | one thread per event |
# |---|---|---|
# | you write | what the result is | how one event is computed |
# | passes over memory | one for each operation | one |
# | lists as results | automatic | two passes, which you write |
# | runs on CPU and GPU | the same line | Numba on both, with a different decorator |
# | an index that does not exist | an error with a message | no error and no message |
#
# Begin with whole arrays on the CPU. There, 50,000 events take a fraction of a second, and you wouldn't notice the time
# that a GPU saves. If you have many events, keep the arrays on the device for several steps. If you run the same few
# steps again and again, write those as kernels. Keep the array version to compare with, because a result that two
# programs agree on is worth more than the result of one.
#
# The next cell shows how long a million events take on a real GPU, with the kernel of the project, with and without
# copies, compared with Awkward on one CPU core.

# %% id="recorded"
from gpucourse.views.measured import recorded_times

recorded_times("zmass")

# %% [markdown] id="recorded-why"
# The three times are 0.08 ms, 4.2 ms and 363 ms. The kernel is 4,400 times as fast as whole arrays on one core, but
# only 86 times as fast if the events have to be copied to the device first. This is "Why GPUs, and when not" in three
# numbers.

# %% [markdown] id="real-text"
# ## 9. Now the real Z
#
# So far every Z was put there by the simulation. The cell below requests the first 100,000 real events from CERN's
# server. It downloads only the parts of the file that contain them, some megabytes of its 2,244,449,133 bytes, and
# keeps them for the next time. Without a network connection it tells you so, and you can finish the lesson without it.
# `gpucourse data fetch` downloads the whole file, and compares it with the checksum that the record publishes,
# `adler32:1fa61aca`.
#
# We estimate the position of a peak as the maximum of a parabola through the logarithms of the counts around the
# fullest bin. The simulated Z, whose mass is known, shows how good this estimate is.

# %% id="real"
from gpucourse.data import Z_MASS, opendata


def peak_of(masses):
    """Where the Z's peak has its top, with the error that the counts leave [GeV]."""
    counts, edges = np.histogram(masses, bins=40, range=(81, 101))
    near = slice(max(counts.argmax() - 4, 0), counts.argmax() + 5)
    middle, weights = (edges[:-1] + 0.25)[near] - 91, np.sqrt(counts[near])
    (a, b, _), errors = np.polyfit(middle, np.log(counts[near]), 2, w=weights, cov="unscaled")
    slope = np.array([b / (2 * a**2), -1 / (2 * a)])  # of the top, by a and by b
    return 91 - b / (2 * a), float(np.sqrt(slope @ errors[:2, :2] @ slope))


pairs = {"simulated": ak.flatten(masses)}
try:
    pairs["real"] = ak.flatten(opposite_pairs(opendata.first(100_000).muons))
except opendata.FetchError as reason:
    print("No real Z today.", reason)
for name, found in pairs.items():
    top, error = peak_of(ak.to_numpy(found))
    print(f"{name:9} Z: the peak is at {top:.2f} ± {error:.2f} GeV; published: {Z_MASS:.4f} ± 0.0020")
draw_histogram(histogram(found), f"All pairs, {name} events")

# %% [markdown] id="real-why"
# Real muons are measured less precisely than simulated ones, and they lose energy to photons, which we do not add back
# here. This shifts and widens a real peak by more than the error that the cell prints, which comes only from the
# counts. Experiments spend years on this difference, and their result is the published mass (Particle Data Group,
# 2026).

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - A jagged array consists of flat columns and offsets. Slices and cuts keep the old content, and `ak.to_packed` writes
#   the remaining elements next to each other.
# - A mask of muons shortens lists, and a mask of events removes events. Empty lists stay, and every step must handle
#   them.
# - `ak.to_backend(array, "cuda")` copies the columns once. Afterwards the same expressions run on the device, with one
#   pass over memory for each operation. You cannot combine them with arrays on the host.
# - In a kernel with `extensions=[ak.numba.cuda]`, each thread loops over its own event. This takes only one pass, but a
#   warp waits for its longest event.
# - Jagged results take two passes. The first one counts and the second one fills. Between them, a scan turns the counts
#   into offsets.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - The Awkward Array manual on [direct
#   constructors](https://awkward-array.org/doc/main/user-guide/how-to-create-constructors.html), which explain the
#   layouts, on [combinations](https://awkward-array.org/doc/main/reference/generated/ak.combinations.html), on
#   [GPUs](https://awkward-array.org/doc/main/user-guide/how-to-math-gpu.html), and on [Numba's CUDA
#   kernels](https://awkward-array.org/doc/main/user-guide/how-to-use-in-numba-cuda.html).
# - uproot's [getting started](https://uproot.readthedocs.io/en/latest/basic.html), with `iterate` for files that do not
#   fit into memory.
# - The manuals of [vector](https://vector.readthedocs.io) and [hist](https://hist.readthedocs.io), on four-vectors and
#   histograms.
# - The page [docs/standins.md](../docs/standins.md) lists what the stand-ins here can do and what they cannot.

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 65 minutes
#
# | minutes | what |
# |---|---|
# | 0-13 | the question, and section 1 on the board, with offsets drawn by hand; `owners` in pairs |
# | 13-22 | section 2; ask who has read a ROOT file, and with what |
# | 22-36 | sections 3 and 4; `clean-pairs` alone |
# | 36-43 | section 5; stop at the list of kernels and have someone count |
# | 43-57 | section 6 and `count-pairs` |
# | 57-65 | section 7's idea, the peak, and the real one where there is a network; `fill-hard` is good homework |
#
# *Ten minutes late:* skip section 2 after `branches`, and skip all of section 7.
#
# *Where people get stuck.* In `owners` they forget empty events, because `np.searchsorted` with the wrong side assigns
# the muon of a neighbouring event to an empty one. In `clean-pairs`, people count before the cut on muons, and lose
# events with a soft third muon. They also write `and` between arrays, which raises an error with a long message, and
# they need `&`. In `fill-hard`, people use `j` from `enumerate` as the position, which leaves gaps where a muon was
# dropped.
#
# *Frequent questions.* "Does uproot read directly into GPU memory?" No, the CPU decompresses the files, and then the
# columns are copied. "Why not just pad?" For at most seven muons you can pad. But most jets have few tracks and some
# have hundreds, so padding them would take far too much memory. "Is Awkward fast on the GPU?" Not always. Each
# operation is fast, but an analysis needs many of them.
#
# *What goes wrong.* On a real GPU the first `ak.` operation compiles all of Awkward's CUDA kernels, which may take
# minutes, so run it before the class arrives. After `vector.register_awkward()`, names matter. A record that is called
# `Momentum4D` but has the wrong fields raises an error at once.
