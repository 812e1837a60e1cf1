"""Listeners for anybody: how much of this process those may hold who have not shown that they belong here."""
