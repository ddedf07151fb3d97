// Package workbuilder turns one revision and one managed cluster into the
// ManifestWorks that carry it there. It has no client and no clock: the same
// input gives the same bytes, so that an unchanged work is never written twice.
//
// Render decides what the cluster shall hold: objects in a stable order, each
// stamped with the hash of its content. Works lays them into ManifestWorks for
// one of the two write phases. OCM prunes what a work no longer lists, even when
// the new objects of the same update were refused; hence the phase Add writes
// new and old objects together, and the phase Drop, once Add is applied, the new
// ones alone.
//
// Content over what OCM accepts in one work is laid into parts. An object keeps its
// part, or moves to another by way of a placeholder (parts.go).
//
// The rules that come from the work agent were read in its source, module
// open-cluster-management.io/ocm v1.2.0, pkg/work.
package workbuilder
