"""All mutants, by what they break."""

from __future__ import annotations

import launches
import of_entry
import of_filter
import of_guard
import of_identity
import of_launcher_guard
import of_lifetime
import of_listening
import of_listings
import of_network
import of_phases
import of_records
import of_trials
import of_walls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mutant import Mutant


def all_mutants() -> list[Mutant]:
    """Raises ValueError where something of the sources has no mutant."""
    made = [
        *launches.phase_mutants(of_phases.ENTRIES),
        of_phases.FDS,
        *launches.record_mutants(of_records.RECORDS),
        *launches.mount_mutants(of_records.MOUNTS),
        *launches.flag_mutants(of_records.FLAGS),
        *launches.namespace_mutants(of_records.NAMESPACES),
        *of_walls.MUTANTS,
        *of_lifetime.MUTANTS,
        *of_network.connection_mutants(),
        *of_guard.guard_mutants(),
        *of_launcher_guard.launcher_guard_mutants(),
        *of_filter.filter_mutants(),
        *of_entry.entry_mutants(),
        *of_listings.MUTANTS,
        *of_listening.MUTANTS,
        *of_identity.MUTANTS,
        *of_trials.MUTANTS,
    ]
    names = [mutant.name for mutant in made]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"two mutants of one name: {sorted(twice)}")
    return made
