/**
 * Owns how a list of tools says what each call would need. Contract: "What the service does", beats 1 to 4:
 * no grant is needed, terms are, the owner is asked each time, or nothing helps.
 */
import { isJsonObject, type Json, type JsonObject } from '../json.ts'

/**
 * `free`: called without a grant, or a grant is held. `asks`: needs terms, or the owner. `closed`: refused.
 */
export type ToolAccess = 'free' | 'asks' | 'closed' | 'unknown'

/** The member of `_meta` and of `annotations` that says it. */
export const ACCESS_MEMBER = 'usher/access'

/** A tool as it was listed, marked. The list's own claim under that name is ignored. */
export function markTool(tool: JsonObject, access: ToolAccess): JsonObject {
  const marked = (value: Json | undefined): JsonObject => ({
    ...(isJsonObject(value) ? value : {}),
    [ACCESS_MEMBER]: access,
  })
  return { ...tool, annotations: marked(tool['annotations']), _meta: marked(tool['_meta']) }
}
