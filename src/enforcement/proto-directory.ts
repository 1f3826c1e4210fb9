/**
 * Owns the location of the messages of Envoy and gRPC health. Contract: "Resource server enforcement point".
 * It stays two folders deep, since from here the same relative path leads to `proto` in the sources and in
 * the bundle (dist/bin), whose file is at that depth.
 */
import { fileURLToPath } from 'node:url'

/** The absolute path of the folder `proto`. */
export const PROTO_DIRECTORY = fileURLToPath(new URL('../../proto/', import.meta.url))
