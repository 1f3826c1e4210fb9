/**
 * The organization that she is a member of, or could join. Contract: "Organization membership, on the
 * member's authorization server".
 */
import { useState } from 'preact/hooks'
import type { OrganizationStanding } from '../../wire/owner/owner-organization.ts'
import { ask } from '../access/api.ts'
import { Joining } from '../organization/joining.tsx'
import { Membership } from '../organization/membership.tsx'
import { Awaited, PageHead } from '../parts/parts.tsx'
import { useLoaded } from '../access/session.ts'
import { WORDS } from '../words.ts'

const W = WORDS.organization

export function OrganizationPage() {
  const { data, fault, reload } = useLoaded(
    access => ask<OrganizationStanding>(access, { path: 'owner/organization' }),
    /^(organization|polic|resource|reset)/,
  )
  const [hasLeft, setLeft] = useState(false)
  return (
    <>
      <PageHead title={W.title} lead={W.lead} />
      <Awaited data={data} fault={fault} reload={reload} />
      <div role="status">{hasLeft ? <p class="notice good">{W.left}</p> : null}</div>
      {data === undefined ? null : data.enrolled ? (
        <Membership
          standing={data}
          onChanged={reload}
          onLeft={() => {
            setLeft(true)
            reload()
          }}
        />
      ) : (
        <Joining
          standing={data}
          onChanged={() => {
            setLeft(false)
            reload()
          }}
        />
      )}
    </>
  )
}
