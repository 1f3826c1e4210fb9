/**
 * Owns the form of the condition by which a tool is split in the sidecar's file. Contract: "Authorized call"
 * (the tool maps to a resource): constants of the arguments, each of which every server reads alike.
 */
import { z } from 'zod'

const CONDITIONS_MAX = 8
const POINTER = /^(?:\/(?:[^/~]|~[01]){1,200}){1,8}$/

/**
 * By JSON Pointer into the arguments, the constant. A number is none, because it has several spellings that
 * servers read in different ways, and neither is null, which many servers take for absent.
 */
export const condition = z
  .record(
    z.string(),
    z.union([z.boolean(), z.string().max(1_000)], { error: 'give true, false or a text as the constant' }),
  )
  .refine(
    constants => Object.keys(constants).every(name => POINTER.test(name)),
    'give a JSON Pointer into the arguments for each constant, such as /dryRun: true',
  )
  .refine(constants => Object.keys(constants).length > 0, 'give at least one constant, such as /dryRun: true')
  .refine(
    constants => Object.keys(constants).length <= CONDITIONS_MAX,
    `give at most ${CONDITIONS_MAX} constants for a part`,
  )
