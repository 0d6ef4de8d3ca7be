# SPDX-License-Identifier: Apache-2.0
"""The tables of a running network, look by look: all rows at first, and then the rows that changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sluice.export.running import Planned, check_places, look, planned, ports_of, reported_traffic
from sluice.export.sonic import Tables, adapted_tables, config_tables
from sluice.export.traffic import Traffic
from sluice.remote import Remote


class Following:
    """Knows which rows the switch has taken."""

    def __init__(
        self,
        remote: Remote,
        interfaces: Mapping[str, str],
        load: float,
        traffic: Sequence[Traffic] | None = None,
        *,
        only_maps: bool = False,
    ) -> None:
        """`interfaces`: see `ports_of`. `traffic`: choose classes for it instead of for the reported flows."""
        self._remote, self._interfaces, self._load, self._traffic = remote, interfaces, load, traffic
        self._tables = adapted_tables if only_maps else config_tables
        self._version = 0
        self._taken: Tables = {}
        self.made: Planned | None = None
        """The classes of the newest policy. They stay until there is another policy, because all ports share them."""
        self.tables: Tables = {}
        """All rows as of the newest look."""

    def look(self) -> Tables:
        """Look at the network. Return the rows that the switch does not have. Raises SluiceError."""
        running = look(self._remote)
        check_places(running, self._interfaces.values())
        if self.made is None or running.version != self._version:
            traffic = self._traffic or reported_traffic(running, self._load)
            self.made, self._version = planned(running.policy, traffic), running.version
        self.tables = self._tables(self.made.plan, ports_of(self.made, running, self._interfaces, self._load))
        return _difference(self._taken, self.tables)

    def taken(self) -> None:
        """The switch has taken all rows of the newest look."""
        self._taken = self.tables


def _difference(before: Tables, after: Tables) -> Tables:
    changed = {
        table: {row: fields for row, fields in rows.items() if before.get(table, {}).get(row) != fields}
        for table, rows in after.items()
    }
    return {table: rows for table, rows in changed.items() if rows}
