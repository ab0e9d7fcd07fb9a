"""Exports of annotation tools."""
